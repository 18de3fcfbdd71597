//! Moves of the connections out of a runtime that is not driven, or blocks. In real time, without a worker.

use crate::{
    scripted::{Answer, Scripted, refused},
    support::{Backed, acquire, meaning, submit},
};
use futures_util::FutureExt as _;
use lock_core::backend::{Applied, ProcessId};
use lock_ledger::{GroupName, HeartbeatRequest, LiveNode, RunLedger as _};
use lock_redis::client::Credentials;
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};
use tokio::{
    runtime::{Builder, Runtime},
    time::{sleep, timeout},
};

/// Longer than a move takes.
const MOVED: Duration = Duration::from_millis(1_600);
/// Far longer than anything takes.
const HANGS: Duration = Duration::from_secs(10);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Connects in this runtime, and acquires once.
fn connected(home: &Runtime) -> (Scripted, Backed) {
    let client = Scripted::default();
    // Outside of the runtime, so that it gets no worker.
    let builder = client.builder();
    let backend = home.block_on(builder.connect()).unwrap();
    home.block_on(acquire(&backend, "x")).unwrap();
    (client, backend)
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < HANGS, "{what}: not after {HANGS:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until both connections have moved.
fn until_moved(client: &Scripted) {
    until("the connections move", || client.server().dials.len() >= 4);
}

/// A thread that has entered the runtime is sending an operation in place while the connections move.
#[test]
fn operation_that_is_sent_during_the_move_is_counted_once() {
    let (home, other) = (runtime(), runtime());
    let (client, backend) = connected(&home);
    let (go_on, held) = mpsc::channel();
    let mut held = Some(held);
    client.answer(move |asked| match asked.runs("acquire") {
        true => held.take().map_or(Answer::Usual, Answer::Held),
        false => Answer::Usual,
    });
    let sender = {
        let (inside, backend) = (home.handle().clone(), backend.clone());
        thread::spawn(move || {
            let _inside = inside.enter();
            submit(&backend, "held")
        })
    };
    until_moved(&client);
    thread::sleep(Duration::from_millis(100));
    drop(go_on);
    let held = sender.join().unwrap();
    other.block_on(async {
        // Its outcome may be unknown.
        let _ = timeout(HANGS, held).await.expect("it is completed");
        for number in 0..20 {
            let later = timeout(HANGS, acquire(&backend, &format!("later:{number}"))).await;
            later.expect("it is completed").expect("the pipeline works after the move");
        }
    });
}

/// The runtime is not driven, before or after the move.
#[test]
fn backend_that_is_dropped_while_its_runtime_is_idle_closes_its_connections() {
    for moves_before in [false, true] {
        let home = runtime();
        let (client, backend) = connected(&home);
        if moves_before {
            until_moved(&client);
        }
        drop(backend);
        thread::sleep(MOVED);
        let (open, dials) = {
            let server = client.server();
            (server.open(), server.dials.len())
        };
        assert_eq!(open, 0, "open after the drop, moved before: {moves_before}, {dials} dials");
    }
}

/// The runtime is driven until an operation was sent by its task, and never again.
#[test]
fn sent_operation_of_an_idle_runtime_is_completed() {
    let (home, other) = (runtime(), runtime());
    let (client, backend) = connected(&home);
    client.answer(|asked| if asked.runs("acquire") { Answer::Never } else { Answer::Usual });
    let before = client.server().count(|asked| asked.runs("acquire"));
    let answer = submit(&backend, "y");
    home.block_on(async {
        while client.server().count(|asked| asked.runs("acquire")) == before {
            sleep(Duration::from_millis(1)).await;
        }
    });
    until_moved(&client);
    client.recover();
    other.block_on(acquire(&backend, "z")).expect("requests work after the move");
    let answer = other.block_on(async { timeout(MOVED, answer).await });
    let answer = answer.expect("it is completed although its runtime is idle");
    assert_eq!(meaning(&answer).1, Applied::Unknown);
}

/// `docs/blocking.md`: the move delays requests once.
#[test]
fn operation_that_waits_for_the_move_is_only_delayed() {
    let (home, other) = (runtime(), runtime());
    let (_client, backend) = connected(&home);
    let answer = submit(&backend, "y");
    other.block_on(answer).expect("sent over the next connection");
}

/// The thread of the runtime blocks while the server is being checked, so that nothing reads the reply.
#[test]
fn connect_in_a_runtime_that_blocks_is_only_delayed() {
    let (client, home) = (Scripted::default(), runtime());
    let builder = client.builder();
    let mut is_first = true;
    client.answer(move |asked| match asked.name {
        "INFO" if std::mem::take(&mut is_first) => Answer::Never,
        _ => Answer::Usual,
    });
    let connected = home.block_on(async {
        let blocks = async {
            sleep(Duration::from_millis(10)).await;
            thread::sleep(MOVED);
        };
        tokio::join!(builder.connect(), blocks).0
    });
    let backend = connected.expect("the server answers");
    home.block_on(acquire(&backend, "x")).unwrap();
}

/// The functions of the backend itself, under another executor.
#[test]
fn backend_is_pinged_outside_of_a_runtime() {
    let client = Scripted::default();
    let backend = client.builder().connect_lazy().unwrap();
    until("connected", || backend.is_connected());
    let begin = Instant::now();
    let mut ping = pin!(backend.ping());
    let mut context = Context::from_waker(Waker::noop());
    while ping.as_mut().poll_unpin(&mut context).is_pending() {
        assert!(begin.elapsed() < HANGS);
        thread::sleep(Duration::from_millis(5));
    }
}

/// A panic of the program's function for logins is not the end of a runtime.
#[test]
fn panic_of_a_provider_does_not_move_the_connections() {
    let (client, panics) = (Scripted::default(), Arc::new(AtomicBool::new(false)));
    let threads = Arc::<Mutex<Vec<String>>>::default();
    let builder = {
        let (panics, threads) = (panics.clone(), threads.clone());
        client.builder().credentials(move || {
            threads.lock().unwrap().push(thread::current().name().unwrap_or_default().to_owned());
            assert!(!panics.swap(false, Ordering::SeqCst), "planned panic of a provider");
            async { Ok::<_, std::io::Error>(Credentials::default()) }
        })
    };
    let home = thread::Builder::new().name("home".to_owned());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (tell, told) = mpsc::channel();
    let home = home.spawn(move || {
        runtime().block_on(async {
            tell.send(builder.connect().await.unwrap()).unwrap();
            let _ = stopped.await;
        });
    });
    let backend = told.recv().unwrap();
    panics.store(true, Ordering::SeqCst);
    client.cut();
    until("it is dialled again", || threads.lock().unwrap().len() >= 5 && backend.is_connected());
    client.cut();
    until("it is dialled again", || threads.lock().unwrap().len() >= 7 && backend.is_connected());
    let threads = threads.lock().unwrap().clone();
    assert!(threads.iter().all(|thread| thread == "home"), "{threads:?}");
    drop(stop);
    home.unwrap().join().unwrap();
}

/// Schedulers in two runtimes share a backend, and the runtime of one ends, or idles, while their requests gather.
#[test]
fn gathered_request_does_not_depend_on_the_runtime_of_another() {
    for ends in [true, false] {
        let (first, second) = (runtime(), runtime());
        let client = Scripted::default();
        let backend = client.builder().connect_lazy().unwrap();
        until("connected", || backend.is_connected());
        client.answer(|asked| match asked.name {
            "EVALSHA" => Answer::Error(refused("ERR no ledger here")),
            _ => Answer::Usual,
        });
        let mut one = pin!(heartbeat(&backend, "one"));
        let mut two = pin!(heartbeat(&backend, "two"));
        // Opens the batch, whose first sleep is in this runtime.
        assert!(first.block_on(is_pending(one.as_mut())));
        // Joins it.
        assert!(second.block_on(is_pending(two.as_mut())));
        let _first = if ends {
            drop(first);
            None
        } else {
            Some(first)
        };
        let answer = second.block_on(async { timeout(HANGS, two).await });
        answer.unwrap_or_else(|_| panic!("it is completed, ends: {ends}")).unwrap_err();
    }
}

/// Polls once.
async fn is_pending<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

fn heartbeat<'a>(
    ledger: &'a Backed,
    group: &str,
) -> impl Future<Output = Result<(), lock_core::backend::BackendError>> + 'a {
    let node = LiveNode {
        id: *ProcessId::random().as_uuid(),
        name: group.to_owned(),
        jobs: 1,
        room: 1,
        kinds: Vec::new(),
        leading: false,
    };
    let (group, lease) = (GroupName::new(group).unwrap(), Duration::from_secs(60));
    let request = HeartbeatRequest { group, node, lease, known: 0, watermarks: Vec::new() };
    async move { ledger.heartbeat(request).await.map(drop) }
}

/// Threads inside a runtime send in place while it ends. Every operation is completed, and the next ones work.
#[test]
fn threads_that_send_while_their_runtime_ends_leave_a_working_backend() {
    for round in 0..200 {
        let (home, other) =
            (Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap(), runtime());
        let client = Scripted::default();
        let builder = client.builder();
        let backend = home.block_on(builder.connect()).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (inside, backend, stop) = (home.handle().clone(), backend.clone(), stop.clone());
                thread::spawn(move || {
                    let (_inside, mut sent) = (inside.enter(), Vec::new());
                    while !stop.load(Ordering::SeqCst) {
                        sent.push(submit(&backend, "x"));
                        thread::sleep(Duration::from_micros(20));
                    }
                    sent
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(2));
        home.shutdown_background();
        thread::sleep(Duration::from_millis(3));
        stop.store(true, Ordering::SeqCst);
        other.block_on(async {
            for thread in threads {
                for answer in thread.join().unwrap() {
                    let _ =
                        timeout(HANGS, answer).await.unwrap_or_else(|_| panic!("round {round}: completed"));
                }
            }
            let answer = timeout(HANGS, acquire(&backend, "y")).await.expect("completed");
            answer.unwrap_or_else(|error| panic!("round {round}: {error}"));
        });
    }
}
