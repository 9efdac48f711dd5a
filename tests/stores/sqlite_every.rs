//! Bytes all over a small store are damaged, and its file and its log are cut to lengths of all sizes.

use std::{fs, os::unix::fs::FileExt};

use ghostlight::stores::SqliteStore;

use crate::{
    appending, commit,
    folder::Folder,
    sqlite_damage::{Answers, closed_store, crash, demand, fill},
};

/// How much of a file's end is cut off byte by byte.
const TAIL: usize = 64 << 10;

/// The share of all that there is that is tried, and the number of equal shares, where
/// `GHOSTLIGHT_EVERY_BIT` names one: `1` is all of it, which takes hours, and `5/17` the fifth of 17 shares.
/// Each share is spread over the whole file, and all together are everything.
/// `GHOSTLIGHT_EVERY_BIT=5/17 cargo test --test stores every -- --nocapture`.
fn share() -> Option<(usize, usize)> {
    let share = std::env::var("GHOSTLIGHT_EVERY_BIT").ok()?;
    let (number, of) = share.split_once('/').unwrap_or(("1", "1"));
    let (number, of): (usize, usize) = (number.parse().unwrap(), of.parse().unwrap());
    assert!((1..=of).contains(&number), "{share}");
    Some((number - 1, of))
}

/// Divides what is to be tried among as many threads as there are processors, each with a copy
/// of the store, and counts what was noticed.
fn try_each<T: Copy + Sync>(
    (folder, right): &(Folder, Answers),
    tries: &[T],
    attempt: impl Fn(&Folder, T, &dyn Fn(&str) -> bool) -> bool + Sync,
) -> usize {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let of_thread = |thread: usize| {
        let copy = folder.image();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let demand = |what: &str| runtime.block_on(demand(&copy, right, what));
        let mine = tries.iter().skip(thread).step_by(threads);
        mine.filter(|one| attempt(&copy, **one, &demand)).count()
    };
    std::thread::scope(|scope| {
        let of_thread = &of_thread;
        let threads: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || of_thread(thread)))
            .collect();
        let noticed = threads.into_iter().map(|thread| thread.join().unwrap());
        noticed.sum()
    })
}

fn blocking<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(work)
}

/// Bits to flip: one in every sixth byte, another one from byte to byte; in free space, which nothing
/// reads, one in a few bytes.
fn bits(bytes: &[u8]) -> Vec<(usize, u8)> {
    if let Some((first, of)) = share() {
        let all = (0..bytes.len() * 8).skip(first).step_by(of);
        return all.map(|bit| (bit / 8, (bit % 8) as u8)).collect();
    }
    let used = |at: usize| {
        let around = &bytes[at.saturating_sub(8)..(at + 8).min(bytes.len())];
        around.iter().any(|byte| *byte != 0)
    };
    let bytes = (0..bytes.len()).filter(|at| (at % 6 == 0 && used(*at)) || at % 61 == 0);
    bytes.map(|at| (at, (at / 6 * 5 % 8) as u8)).collect()
}

#[test]
fn a_flipped_bit_in_every_sixth_byte_is_an_error_or_makes_no_difference() {
    let closed = blocking(closed_store());
    let whole = fs::read(closed.0.store()).unwrap();
    let bits = bits(&whole);
    let noticed = try_each(&closed, &bits, |folder, (at, bit), demand| {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(folder.store())
            .unwrap();
        let put = |byte: u8| file.write_all_at(&[byte], at as u64).unwrap();
        put(whole[at] ^ (1 << bit));
        let noticed = demand(&format!("bit {bit} of byte {at} flipped"));
        put(whole[at]);
        noticed
    });
    let tried = bits.len();
    println!("{tried} bits flipped, {noticed} noticed, 0 wrong");
    assert!(noticed > tried / 16, "{noticed} of {tried}");
}

/// Cuts the last 64 KiB off, in steps of some bytes, and then byte by byte the last frames' ends.
fn every_truncation(store: &(Folder, Answers), suffix: &str) {
    let whole = fs::read(store.0.beside(suffix)).unwrap();
    let tail = whole.len().saturating_sub(TAIL)..whole.len();
    let (first, step) = share().unwrap_or((0, 31));
    let near_end = whole.len() - 100;
    let cuts: Vec<usize> = tail
        .rev()
        .filter(|len| *len > near_end || len % step == first)
        .collect();
    let noticed = try_each(store, &cuts, |folder, len, demand| {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(folder.beside(suffix))
            .unwrap();
        file.set_len(len as u64).unwrap();
        demand(&format!("the first {len} bytes of {suffix:?}"))
    });
    println!(
        "{} truncations of {suffix:?}, {noticed} noticed",
        cuts.len()
    );
    assert_eq!(noticed, cuts.len());
}

#[test]
fn the_last_64_kib_of_the_log_are_cut_off_anywhere_and_it_is_an_error() {
    let crashed = blocking(async {
        let folder = Folder::new();
        let store = SqliteStore::open(folder.store()).unwrap();
        fill(&store).await;
        for sequence in 12..20 {
            commit(&store, appending(1, sequence, &[&"y".repeat(900)]))
                .await
                .unwrap();
        }
        crash(&folder, store).await
    });
    let log = fs::metadata(crashed.0.beside("-wal")).unwrap().len();
    assert!(log > TAIL as u64, "{log} bytes");
    every_truncation(&crashed, "-wal");
}

#[test]
fn the_last_64_kib_of_the_file_are_cut_off_anywhere_and_it_is_an_error() {
    every_truncation(&blocking(closed_store()), "");
}
