//! Programs with threads. Their output does not depend on the order in which those run.

use super::{Sketch, sketch};

pub(super) fn all() -> Vec<Sketch> {
    vec![
        sketch(
            "xz -T2",
            "xz",
            &["-k", "-T2", "--block-size=128KiB", "-1", "big.txt"],
        )
        .file("big.txt", big()),
        sketch(
            "sort --parallel",
            "sort",
            &["--parallel=4", "-S", "100K", "-k2,2n", "-k3", "big.txt"],
        )
        .file("big.txt", big()),
        sketch("zstd -T4", "zstd", &["-q", "-T4", "-B512K", "big.txt"]).file("big.txt", big()),
        sketch("pigz", "pigz", &["-p4", "-n", "-k", "big.txt"]).file("big.txt", big()),
        // Rust, with rayon.
        sketch(
            "b3sum",
            "b3sum",
            &["--num-threads", "4", "big.txt", "list.txt"],
        )
        .file("big.txt", big()),
        // Rust, with its own threads.
        sketch(
            "ripgrep",
            "rg",
            &["-j4", "--sort", "path", "-c", "kelp", "."],
        )
        .file("big.txt", big()),
        sketch("python futures", "python3", &["-I", "futures.py"]).file("futures.py", FUTURES),
        sketch("python locks", "python3", &["-I", "locks.py"]).file("locks.py", LOCKS),
        sketch("sqlite threads", "python3", &["-I", "sqlite.py"]).file("sqlite.py", SQLITE),
        sketch("node workers", "node", &["workers.js"]).file("workers.js", NODE),
    ]
}

/// A megabyte and a half.
fn big() -> String {
    (0u64..60_000)
        .map(|n| {
            format!(
                "line {} of {}\n",
                n * 7919 % 60_013,
                n.wrapping_mul(0x9e37_79b9) % 1_000_003
            )
        })
        .collect()
}

const FUTURES: &str = r#"
import concurrent.futures, hashlib
def digest(n): return hashlib.sha256(b'x' * n * 997).hexdigest()[:8]
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(list(pool.map(digest, range(60))))
    waiting = [pool.submit(pow, 3, n, 1000003) for n in range(50)]
    print(sum(f.result() for f in concurrent.futures.as_completed(waiting)))
"#;
const LOCKS: &str = r#"
import queue, threading
q, out, lock = queue.Queue(8), [], threading.Lock()
def put(n):
    for i in range(200): q.put(n * 1000 + i)
def get():
    while (v := q.get()) is not None:
        with lock: out.append(v)
putting = [threading.Thread(target=put, args=(n,)) for n in range(3)]
getting = [threading.Thread(target=get) for _ in range(3)]
for t in putting + getting: t.start()
for t in putting: t.join()
for _ in getting: q.put(None)
for t in getting: t.join()
print(len(out), sum(out))
barrier, event, few = threading.Barrier(4), threading.Event(), threading.Semaphore(2)
def meet():
    for _ in range(20): barrier.wait()
    event.wait()
    with few: pass
meeting = [threading.Thread(target=meet) for _ in range(4)]
for t in meeting: t.start()
event.set()
for t in meeting: t.join()
timer = threading.Timer(0.01, lambda: print('timer'))
timer.start(); timer.join()
"#;
const SQLITE: &str = r#"
import sqlite3, threading
def connect(): return sqlite3.connect('file:shared?mode=memory&cache=shared', uri=True, timeout=60)
keep = connect()
keep.execute('create table t(a, b)')
keep.commit()
lock = threading.Lock()
def write(n):
    c = connect()
    for i in range(100):
        with lock, c: c.execute('insert into t values(?, ?)', (n, i))
    c.close()
threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(keep.execute('select count(*), sum(a * b) from t').fetchall())
"#;
const NODE: &str = r#"
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto');
if (isMainThread) {
  const run = i => new Promise(done => new Worker(__filename, { workerData: i }).on('message', done));
  const key = n => new Promise(done => crypto.pbkdf2('p' + n, 's', 500, 32, 'sha256', (e, k) => done(k.toString('hex').slice(0, 8))));
  Promise.all([0, 1, 2].map(run)).then(sums => { console.log(sums); return Promise.all([1, 2, 3, 4].map(key)); }).then(keys => console.log(keys));
} else {
  let sum = 0;
  for (let i = 0; i < 200000; i++) sum += i % (workerData + 2);
  parentPort.postMessage(sum);
}
"#;
