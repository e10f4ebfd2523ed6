//! Requests and memory of any kind: each is served or refused.

use nix::sys::memfd::{MFdFlags, memfd_create};
use proptest::prelude::*;

use super::*;

const START: u64 = 0x1000;
const BYTES: u64 = 1 << 14;

fn request(kind: u32, body: Vec<u8>, files: Vec<OwnedFd>) -> Request {
    Request { kind, flags: VERSION | WANTS_REPLY, body, files }
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// A device with memory in which both queues are, and the memory.
fn device(is_radio: bool, start: u64) -> (Device, File) {
    let memory = File::from(memfd_create("fuzz", MFdFlags::MFD_CLOEXEC).unwrap());
    memory.set_len(BYTES).unwrap();
    let mut device = if is_radio { Device::radio() } else { Device::new([2, 0, 0, 0, 0, 0], 1500) };
    let own = OwnedFd::from(memory.try_clone().unwrap());
    device.handle(request(SET_MEM_TABLE, words(&[1, start, BYTES, start, 0]), vec![own])).unwrap();
    for queue in 0..2u32 {
        let of = |value: u32| [queue, value].map(u32::to_ne_bytes).concat();
        let at = start + u64::from(queue) * 0x1000;
        device.handle(request(SET_VRING_NUM, of(16), vec![])).unwrap();
        device.handle(request(SET_VRING_BASE, of(0), vec![])).unwrap();
        let addresses = words(&[u64::from(queue), at + 0x100, at + 0x800, at + 0x400, 0]);
        device.handle(request(SET_VRING_ADDR, addresses, vec![])).unwrap();
        device.handle(request(SET_VRING_ENABLE, of(1), vec![])).unwrap();
    }
    (device, memory)
}

/// Numbers, most of them near what matters.
fn number() -> impl Strategy<Value = u64> {
    let near = prop::sample::select(vec![
        0,
        1,
        16,
        1024,
        u64::from(u16::MAX),
        u64::from(u32::MAX),
        START,
        START + BYTES,
        u64::MAX - BYTES,
        u64::MAX,
    ]);
    prop_oneof![any::<u64>(), (near, 0u64..20).prop_map(|(near, more)| near.wrapping_add(more).wrapping_sub(4))]
}

#[derive(Debug, Clone)]
enum Act {
    Ask(u32, Vec<u64>, usize, bool),
    Write(u64, Vec<u8>),
    Offer(u16, u16),
    Truncate(u64),
    Use(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let kinds = prop::sample::select(vec![1, 2, 3, 5, 8, 9, 10, 12, 13, 15, 16, 18, 21, 24, 35, 36]);
    let ask = (kinds, prop::collection::vec(number(), 0..6), 0usize..60, any::<bool>());
    prop_oneof![
        3 => ask.prop_map(|(kind, words, cut, has_file)| Act::Ask(kind, words, cut, has_file)),
        4 => (0..BYTES - 32, prop::collection::vec(any::<u8>(), 1..32)).prop_map(|(at, bytes)| Act::Write(at, bytes)),
        4 => (any::<u16>(), 0u16..20).prop_map(|(by, head)| Act::Offer(by % 40, head)),
        1 => (0..BYTES).prop_map(Act::Truncate),
        6 => (0usize..2).prop_map(Act::Use),
    ]
}

/// All that a controller does with a queue.
fn use_queue(device: &mut Device, index: usize) -> Result<(), Fault> {
    let Device { memory, queues, .. } = device;
    let queue = &mut queues[index];
    let mut packet = Vec::new();
    for _ in 0..queue.size() {
        let Some(head) = queue.take(memory)? else { break };
        queue.read(memory, &mut packet, 65536)?;
        assert!(packet.len() <= 65536);
        queue.write(memory, &[7; 2000])?;
        queue.give(memory, head, 2000)?;
    }
    queue.ask_for_notices(memory, true)?;
    queue.wants_call(memory).map(|_| ())
}

proptest! {
    #[test]
    fn any_requests_and_any_memory_are_served_or_refused(
        acts in prop::collection::vec(act(), 1..60),
        is_radio in any::<bool>(),
        is_last in any::<bool>(),
    ) {
        // Where memory ends with the last address sums run over.
        let (mut device, memory) = device(is_radio, if is_last { u64::MAX - BYTES } else { START });
        for act in acts {
            match act {
                Act::Ask(kind, words_of_it, cut, has_file) => {
                    let mut body = words(&words_of_it);
                    body.truncate(cut);
                    let files = has_file.then(|| OwnedFd::from(memory.try_clone().unwrap()));
                    let _ = device.handle(request(kind, body, files.into_iter().collect()));
                }
                Act::Write(at, bytes) => std::os::unix::fs::FileExt::write_all_at(&memory, &bytes, at).unwrap(),
                Act::Offer(by, head) => {
                    for queue in [0, 0x1000u64] {
                        let slots: Vec<u8> = (0..16).flat_map(|_| head.to_le_bytes()).collect();
                        let head = [&[0, 0][..], &by.to_le_bytes(), &slots].concat();
                        std::os::unix::fs::FileExt::write_all_at(&memory, &head, queue + 0x400).unwrap();
                    }
                }
                Act::Truncate(len) => memory.set_len(len).unwrap(),
                Act::Use(index) => {
                    let _ = use_queue(&mut device, index);
                }
            }
        }
    }

    /// Bytes that a guest sends as a request are one or none, however they come.
    #[test]
    fn any_bytes_are_a_request_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200), size in 0u32..180) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut patience = Patience::new(std::time::Duration::from_secs(5));
        patience.watch(&ours).unwrap();
        let mut all = bytes;
        if let Some(index) = all.get_mut(8..12) {
            index.copy_from_slice(&size.to_ne_bytes());
        }
        std::io::Write::write_all(&mut &theirs, &all).unwrap();
        drop(theirs);
        let mut rest = all.as_slice();
        while let Ok(request) = Request::read(&ours, &mut patience) {
            let size = 12 + request.body.len();
            prop_assert_eq!(&rest[12..size], &request.body[..]);
            rest = &rest[size..];
        }
    }
}

/// A ring whose size grows afterwards would lie outside of the memory in which its addresses were
/// found.
#[test]
fn a_ring_of_another_size_has_no_addresses() {
    let (mut device, _memory) = device(false, u64::MAX - BYTES);
    let of = |value: u32| [1u32, value].map(u32::to_ne_bytes).concat();
    device.handle(request(SET_VRING_NUM, of(1024), vec![])).unwrap();
    assert!(!device.queues[SEND].is_on());
    let said = device.handle(request(SET_VRING_ENABLE, of(1), vec![])).unwrap_err();
    assert!(said.to_string().contains("before its addresses were known"), "{said}");
}

/// A chain that is longer than any driver's costs no more than one that is not.
#[test]
fn chains_have_few_pieces() {
    let (mut device, memory) = device(false, START);
    let mut large = Queue::default();
    large.set_size(256).unwrap();
    large.set_addresses(&device.memory, START, START + 0x2000, START + 0x3000).unwrap();
    large.enable(true).unwrap();
    device.queues[SEND] = large;
    let write = |at: u64, bytes: &[u8]| std::os::unix::fs::FileExt::write_all_at(&memory, bytes, at).unwrap();
    for index in 0..255u16 {
        let [low, high] = (index + 1).to_le_bytes();
        let tail = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, low, high];
        write(u64::from(index) * 16, &[&(START).to_le_bytes()[..], &tail[8..]].concat());
    }
    write(0x3002, &1u16.to_le_bytes());
    let said = device.queues[SEND].take(&device.memory).unwrap_err();
    assert!(said.to_string().contains("has no end"), "{said}");
}
