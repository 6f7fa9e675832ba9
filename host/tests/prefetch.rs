//! The prefetcher alone: order, bounds, failures, and that it always ends.
#![allow(clippy::unwrap_used, reason = "tests may fail")]

mod loading;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use loading::{alone, in_time, loader_threads, moment};
use zrecord_host::{PrefetchError, PrefetchOptions, Prefetcher};

fn options(workers: usize, prefetch: usize) -> PrefetchOptions {
    PrefetchOptions { workers, prefetch, ..PrefetchOptions::default() }
}

fn sleeping(workers: usize, prefetch: usize) -> Prefetcher<u64, String> {
    Prefetcher::new(options(workers, prefetch), |step| {
        thread::sleep(moment(step));
        Ok(step)
    })
}

#[test]
fn results_come_in_step_order_whatever_the_workers_do() {
    let _alone = alone();
    in_time(|| {
        for (workers, prefetch) in [(0, 0), (0, 4), (4, 0), (1, 1), (2, 8), (8, 4), (8, 16)] {
            let prefetcher = sleeping(workers, prefetch);
            for step in 0..300 {
                assert_eq!(prefetcher.next().unwrap(), step, "{workers} workers");
                assert_eq!(prefetcher.position().unwrap(), step + 1);
            }
        }
    });
    assert_eq!(loader_threads(), 0);
}

#[test]
fn no_more_than_prefetch_results_are_finished_or_under_way() {
    let _alone = alone();
    in_time(|| {
        /// Counts itself for as long as it exists.
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let (alive, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counters = (Arc::clone(&alive), Arc::clone(&most));
        let prefetcher = Prefetcher::<_, String>::new(options(8, 5), move |step| {
            let now = counters.0.fetch_add(1, Ordering::SeqCst) + 1;
            counters.1.fetch_max(now, Ordering::SeqCst);
            let counted = Counted(Arc::clone(&counters.0));
            thread::sleep(moment(step));
            Ok(counted)
        });
        for step in 0..400 {
            if step % 50 == 49 {
                // What a seek made useless still counts while it is under way.
                prefetcher.seek(step * 3).unwrap();
            }
            drop(prefetcher.next().unwrap());
        }
        // Then the rest is made ahead, however busy the machine is.
        while alive.load(Ordering::SeqCst) < 5 {
            thread::sleep(Duration::from_millis(1));
        }
        // One more may be in the caller's hands.
        assert!(most.load(Ordering::SeqCst) <= 6, "{}", most.load(Ordering::SeqCst));
        drop(prefetcher);
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn nothing_is_made_ahead_in_the_callers_thread() {
    let _alone = alone();
    in_time(|| {
        for (workers, prefetch) in [(0, 4), (4, 0)] {
            let made = Arc::new(AtomicU64::new(0));
            let counter = Arc::clone(&made);
            let caller = thread::current().id();
            let prefetcher = Prefetcher::<_, String>::new(options(workers, prefetch), move |_| {
                assert_eq!(thread::current().id(), caller);
                Ok(counter.fetch_add(1, Ordering::SeqCst))
            });
            for step in 0..5 {
                assert_eq!(prefetcher.next().unwrap(), step);
                assert_eq!(made.load(Ordering::SeqCst), step + 1);
            }
            assert_eq!(loader_threads(), 0);
        }
    });
}

#[test]
fn an_error_surfaces_at_its_step_and_stays() {
    let _alone = alone();
    in_time(|| {
        for workers in [0, 1, 8] {
            let broken = Arc::new(AtomicBool::new(true));
            let breaks = Arc::clone(&broken);
            let prefetcher = Prefetcher::new(options(workers, 8), move |step| {
                thread::sleep(moment(step));
                // Later steps fail as well, and sooner.
                if step >= 20 && breaks.load(Ordering::SeqCst) {
                    return Err(format!("no {step}"));
                }
                Ok(step)
            });
            for step in 0..20 {
                assert_eq!(prefetcher.next().unwrap(), step);
            }
            for _ in 0..3 {
                let error = prefetcher.next().unwrap_err();
                assert_eq!(error.to_string(), "step 20: no 20");
                assert!(
                    matches!(error, PrefetchError::Failed { step: 20, cause } if cause == "no 20")
                );
                assert_eq!(prefetcher.position().unwrap(), 20);
            }
            broken.store(false, Ordering::SeqCst);
            prefetcher.seek(20).unwrap();
            for step in 20..60 {
                assert_eq!(prefetcher.next().unwrap(), step);
            }
        }
    });
    assert_eq!(loader_threads(), 0);
}

#[test]
fn a_panic_surfaces_at_its_step_and_stays() {
    let _alone = alone();
    in_time(|| {
        for workers in [0, 3] {
            let prefetcher = Prefetcher::<u64, String>::new(options(workers, 4), |step| {
                assert!(step != 7, "step {step} is cursed");
                Ok(step)
            });
            for step in 0..7 {
                assert_eq!(prefetcher.next().unwrap(), step);
            }
            for _ in 0..3 {
                let error = prefetcher.next().unwrap_err();
                assert_eq!(error.to_string(), "step 7 panicked: step 7 is cursed");
            }
            prefetcher.seek(8).unwrap();
            assert_eq!(prefetcher.next().unwrap(), 8);
        }
    });
    assert_eq!(loader_threads(), 0);
}

#[test]
fn values_that_panic_when_dropped_kill_no_worker() {
    let _alone = alone();
    in_time(|| {
        struct Bomb(u64, Arc<AtomicBool>);
        impl Drop for Bomb {
            fn drop(&mut self) {
                assert!(!self.1.load(Ordering::SeqCst), "dropped {}", self.0);
            }
        }
        let armed = Arc::new(AtomicBool::new(true));
        let fuse = Arc::clone(&armed);
        let prefetcher = Prefetcher::<_, String>::new(options(2, 4), move |step| {
            thread::sleep(moment(step));
            Ok(Bomb(step, Arc::clone(&fuse)))
        });
        prefetcher.start().unwrap();
        let stride = if cfg!(miri) { 500 } else { 100 };
        for step in (0..3000).step_by(stride) {
            thread::sleep(Duration::from_micros(300));
            prefetcher.seek(step).unwrap();
        }
        armed.store(false, Ordering::SeqCst);
        assert_eq!(prefetcher.next().unwrap().0, 3000 - stride as u64);
    });
    assert_eq!(loader_threads(), 0);
}

#[test]
fn seeking_goes_on_from_any_step_at_any_moment() {
    let _alone = alone();
    in_time(|| {
        for workers in [0, 1, 8] {
            let prefetcher = sleeping(workers, 6);
            for step in [0, 5, 3, 1 << 40, u64::MAX - 20, 0, 77] {
                prefetcher.seek(step).unwrap();
                assert_eq!(prefetcher.position().unwrap(), step);
                for step in step..step + 10 {
                    assert_eq!(prefetcher.next().unwrap(), step, "{workers} workers");
                }
            }
        }
    });
}

#[test]
fn a_change_and_its_seek_are_seen_together() {
    let _alone = alone();
    in_time(|| {
        let epoch = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&epoch);
        let prefetcher = Prefetcher::<_, String>::new(options(4, 4), move |step| {
            let epoch = seen.load(Ordering::SeqCst);
            thread::sleep(moment(step));
            Ok((epoch, step))
        });
        for number in 1..60 {
            for _ in 0..number % 4 {
                assert_eq!(prefetcher.next().unwrap().0, number - 1);
            }
            prefetcher.seek_with(10, || epoch.store(number, Ordering::SeqCst)).unwrap();
            assert_eq!(prefetcher.next().unwrap(), (number, 10));
        }
    });
}

#[test]
fn it_ends_before_the_end_step() {
    let _alone = alone();
    in_time(|| {
        for workers in [0, 4] {
            let range = PrefetchOptions { first_step: 3, end_step: 9, ..options(workers, 4) };
            let prefetcher = Prefetcher::<u64, String>::new(range, |step| {
                assert!(step < 9);
                Ok(step)
            });
            let all: Vec<_> = std::iter::from_fn(|| prefetcher.next().ok()).collect();
            assert_eq!(all, [3, 4, 5, 6, 7, 8]);
            assert!(matches!(prefetcher.next(), Err(PrefetchError::Ended)));
            prefetcher.seek(8).unwrap();
            assert_eq!(prefetcher.next().unwrap(), 8);
            assert!(matches!(prefetcher.next(), Err(PrefetchError::Ended)));
        }
    });
}

#[test]
fn a_wait_can_be_given_up_without_losing_a_result() {
    let _alone = alone();
    in_time(|| {
        let prefetcher = Prefetcher::<u64, String>::new(options(1, 2), |step| {
            thread::sleep(Duration::from_millis(60));
            Ok(step)
        });
        let mut waits = 0;
        for step in 0..3 {
            let value = loop {
                let began = Instant::now();
                if let Some(value) = prefetcher.next_timeout(Duration::from_millis(10)).unwrap() {
                    break value;
                }
                assert!(began.elapsed() >= Duration::from_millis(10), "does not spin");
                waits += 1;
            };
            assert_eq!(value, step);
        }
        assert!(waits >= 3, "{waits}");
        assert!(prefetcher.next_timeout(Duration::MAX).unwrap().is_some());
    });
}

#[test]
fn closing_while_another_thread_waits_tells_it_so() {
    let _alone = alone();
    in_time(|| {
        for workers in [0, 1, 4] {
            let prefetcher =
                Arc::new(Prefetcher::<u64, String>::new(options(workers, 4), |step| {
                    thread::sleep(Duration::from_millis(50));
                    Ok(step)
                }));
            let waiting = Arc::clone(&prefetcher);
            let waiter = thread::spawn(move || waiting.next());
            thread::sleep(Duration::from_millis(10));
            thread::scope(|scope| {
                scope.spawn(|| prefetcher.close());
                prefetcher.close();
            });
            assert_eq!(loader_threads(), 0, "closed means that no thread is left");
            assert!(matches!(waiter.join().unwrap(), Err(PrefetchError::Closed)));
            assert!(matches!(prefetcher.next(), Err(PrefetchError::Closed)));
            assert!(matches!(prefetcher.seek(1), Err(PrefetchError::Closed)));
            assert!(prefetcher.is_closed());
            prefetcher.close();
        }
    });
}

#[test]
fn dropping_at_any_moment_leaves_no_thread() {
    let _alone = alone();
    in_time(|| {
        for delay in 0..60 {
            let prefetcher = sleeping(4, 4);
            prefetcher.start().unwrap();
            thread::sleep(Duration::from_micros(delay * 40));
            if delay % 3 == 0 {
                prefetcher.next().unwrap();
            }
            drop(prefetcher);
            assert_eq!(loader_threads(), 0);
        }
    });
}

#[test]
fn a_thousand_prefetchers_leave_no_thread() {
    let _alone = alone();
    in_time(|| {
        let mut alive = Vec::new();
        for number in 0..1000_u64 {
            let prefetcher = Prefetcher::<u64, String>::new(options(3, 4), Ok);
            assert_eq!(prefetcher.next().unwrap(), 0);
            // Some live a while beside others.
            if number % 10 == 0 {
                alive.push(prefetcher);
            }
            if number % 100 == 99 {
                alive.clear();
            }
        }
    });
    assert_eq!(loader_threads(), 0);
}

/// The last reference to a loader may die in its own worker, for example when
/// an interpreter collects garbage while it runs a transform there.
#[test]
fn closing_from_inside_produce_waits_for_nothing() {
    let _alone = alone();
    in_time(|| {
        for workers in [0, 2] {
            let own = Arc::new(OnceLock::<Mutex<Option<Arc<Prefetcher<u64, String>>>>>::new());
            let inside = Arc::clone(&own);
            let prefetcher = Arc::new(Prefetcher::new(options(workers, 2), move |step| {
                if step == 3 {
                    let held = inside.get().unwrap().lock().unwrap().take();
                    let prefetcher = held.unwrap();
                    assert!(matches!(prefetcher.next(), Err(PrefetchError::Reentrant)));
                    prefetcher.close();
                }
                Ok(step)
            }));
            assert!(own.set(Mutex::new(Some(Arc::clone(&prefetcher)))).is_ok());
            let last = loop {
                match prefetcher.next() {
                    Ok(step) => assert!(step < 3),
                    Err(error) => break error,
                }
            };
            assert!(matches!(last, PrefetchError::Closed));
        }
    });
    assert_eq!(loader_threads(), 0);
}

#[test]
fn consumers_share_the_steps_between_them() {
    let _alone = alone();
    in_time(|| {
        for workers in [0, 4] {
            let prefetcher = sleeping(workers, 4);
            let seen = Mutex::new(Vec::new());
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let mut last = None;
                        for _ in 0..50 {
                            let step = prefetcher.next().unwrap();
                            assert!(last < Some(step), "each one sees them rise");
                            last = Some(step);
                            seen.lock().unwrap().push(step);
                        }
                    });
                }
            });
            let mut seen = seen.into_inner().unwrap();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..200));
        }
    });
}
