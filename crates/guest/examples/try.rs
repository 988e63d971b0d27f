use std::path::Path;
fn main() {
    let mut args = std::env::args_os().skip(1);
    let folder = args.next().unwrap();
    let Some(program) = args.next() else {
        let mut r = guest::Replay::open(Path::new(&folder), guest::pass_through()).unwrap();
        r.on_crash(|c| {
            eprintln!(
                "crash: signal {} at {:x} step {} from {:x}",
                c.signal, c.regs.rip, c.step, c.branched_from
            )
        });
        match r.run(&guest::Until {
            step: std::env::var("TO").ok().map(|s| s.parse().unwrap()),
            ..Default::default()
        }) {
            Ok(h) => eprintln!("{h:?} at {:?}, {:?}", r.step(), r.stats()),
            Err(e) => {
                eprintln!("{e}");
                std::process::exit(3)
            }
        }
        return;
    };
    let launch = guest::Launch::new(program, args).unwrap();
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let mut r = guest::Recorder::start(&launch, Path::new(&folder)).unwrap();
    r.on_crash(|c| {
        eprintln!(
            "crash: signal {} at {:x} step {} from {:x}",
            c.signal, c.regs.rip, c.step, c.branched_from
        )
    });
    let done = r.run().unwrap();
    eprintln!("{:?} {:?}\n{:?}", done.end, done.stats, done.notes);
}
