//! The bytes of packets that are inside a network, by packet number. Buffers are reused, so memory
//! follows the most that were inside at once.

use airtcp_core::packet::PacketId;

/// Bytes by packet number.
#[derive(Debug, Default)]
pub struct Payloads {
    slots: Vec<Vec<u8>>,
}

fn index(id: PacketId) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX)
}

impl Payloads {
    /// Keeps a packet's bytes, in place of those of an earlier packet of that number, which the
    /// network has dropped.
    pub fn put(&mut self, id: PacketId, bytes: &[u8]) {
        let at = index(id);
        if at >= self.slots.len() {
            self.slots.resize_with(at + 1, Vec::new);
        }
        let slot = &mut self.slots[at];
        slot.clear();
        slot.extend_from_slice(bytes);
    }

    /// A packet's bytes; none if the number was never given.
    pub fn get(&mut self, id: PacketId) -> &mut [u8] {
        self.slots.get_mut(index(id)).map_or(&mut [], Vec::as_mut_slice)
    }

    /// The most packets that were inside at once, about.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Nothing was ever inside.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_used_again_has_the_new_bytes() {
        let mut kept = Payloads::default();
        kept.put(PacketId(3), &[1; 1500]);
        kept.put(PacketId(0), &[2; 40]);
        kept.put(PacketId(3), &[3; 60]);
        assert_eq!((kept.get(PacketId(3)).to_vec(), kept.get(PacketId(0)).len()), (vec![3; 60], 40));
        assert!(kept.get(PacketId(9)).is_empty());
        assert_eq!(kept.len(), 4);
    }
}
