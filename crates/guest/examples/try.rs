use std::path::Path;
fn main() {
    let mut args = std::env::args_os().skip(1);
    let folder = args.next().unwrap();
    let program = args.next().unwrap();
    let launch = guest::Launch::new(program, args).unwrap();
    std::fs::create_dir_all(&folder).unwrap();
    let _ = std::fs::remove_file(Path::new(&folder).join("events"));
    let mut r = guest::Recorder::start(&launch, Path::new(&folder)).unwrap();
    r.on_crash(|c| eprintln!("crash: signal {} at {:x} step {} from {:x}", c.signal, c.regs.rip, c.step, c.branched_from));
    let done = r.run().unwrap();
    eprintln!("{:?} {:?}\n{:?}", done.end, done.stats, done.notes);
}
