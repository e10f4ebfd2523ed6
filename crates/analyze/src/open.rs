//! The connections that are open, found by their ends, in the order in which they were last heard
//! of.

use hashbrown::HashMap;

use airtcp_core::convert::count;

use crate::connection::Connection;
use crate::decode::{Endpoint, Segment};

/// No slot.
const NONE: u32 = u32::MAX;

/// Place of an open connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u32);

#[derive(Debug)]
struct Slot {
    connection: Option<Connection>,
    key: Ends,
    older: u32,
    newer: u32,
}

/// A hash map finds; the order of everything else is a list from the one silent longest to the one
/// heard of last.
#[derive(Debug)]
pub(crate) struct Open {
    by_ends: HashMap<Ends, u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
}

impl Default for Open {
    fn default() -> Open {
        Open { by_ends: HashMap::new(), slots: Vec::new(), free: Vec::new(), oldest: NONE, newest: NONE }
    }
}

/// Place of the capture, and both ends.
type Ends = (u32, Endpoint, Endpoint);

fn key(p: &Segment) -> Ends {
    if p.source <= p.destination { (p.place, p.source, p.destination) } else { (p.place, p.destination, p.source) }
}

impl Open {
    pub(crate) fn len(&self) -> usize {
        self.by_ends.len()
    }

    /// Where the connection is that a packet belongs to.
    pub(crate) fn find(&self, p: &Segment) -> Option<Place> {
        self.by_ends.get(&key(p)).map(|&slot| Place(slot))
    }

    pub(crate) fn get(&mut self, place: Place) -> Option<&mut Connection> {
        self.slots.get_mut(place.0 as usize)?.connection.as_mut()
    }

    /// It is now the one heard of last.
    pub(crate) fn heard_of(&mut self, Place(slot): Place) {
        if self.newest != slot {
            self.unlink(slot);
            self.link(slot);
        }
    }

    pub(crate) fn insert(&mut self, p: &Segment, connection: Connection) -> Place {
        let slot = self.free.pop().unwrap_or(count(self.slots.len()));
        let fresh = Slot { connection: Some(connection), key: key(p), older: NONE, newer: NONE };
        match self.slots.get_mut(slot as usize) {
            Some(place) => *place = fresh,
            None => self.slots.push(fresh),
        }
        self.by_ends.insert(key(p), slot);
        self.link(slot);
        Place(slot)
    }

    pub(crate) fn remove(&mut self, Place(slot): Place) -> Option<Connection> {
        self.take(slot)
    }

    /// The one silent longest.
    pub(crate) fn oldest(&self) -> Option<&Connection> {
        self.slots.get(self.oldest as usize)?.connection.as_ref()
    }
    pub(crate) fn remove_oldest(&mut self) -> Option<Connection> {
        if self.oldest == NONE { None } else { self.take(self.oldest) }
    }

    fn take(&mut self, slot: u32) -> Option<Connection> {
        self.unlink(slot);
        self.by_ends.remove(&self.slots[slot as usize].key);
        self.free.push(slot);
        self.slots[slot as usize].connection.take()
    }

    fn link(&mut self, slot: u32) {
        let newest = self.newest;
        let this = &mut self.slots[slot as usize];
        (this.older, this.newer) = (newest, NONE);
        match self.slots.get_mut(newest as usize) {
            Some(before) => before.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let (older, newer) = (self.slots[slot as usize].older, self.slots[slot as usize].newer);
        match self.slots.get_mut(older as usize) {
            Some(before) => before.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(after) => after.older = older,
            None => self.newest = older,
        }
    }
}
