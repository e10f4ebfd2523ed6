//! Several files as one stream of packets, in the order of time: files that one was rotated into
//! follow each other at one place; places are merged.

use std::collections::VecDeque;

use crate::reader::{CaptureError, Ignored, Packing, Raw, Reader, UnixTime};

/// Opens a file when its turn comes.
pub type Opener = Box<dyn FnOnce() -> Result<Reader, CaptureError> + Send>;

/// A place of capture: a file that is open, and those that follow it.
pub struct Place {
    reader: Reader,
    /// Number of the open file among all.
    file: usize,
    later: VecDeque<(usize, Opener)>,
    over: bool,
}

impl Place {
    /// `first`: its number among all files and the file; `later`: those that follow, in the order
    /// of time.
    pub fn new(first: (usize, Reader), later: impl IntoIterator<Item = (usize, Opener)>) -> Place {
        Place { reader: first.1, file: first.0, later: later.into_iter().collect(), over: false }
    }
}

/// All that is read.
pub(crate) struct Places {
    places: Vec<Place>,
    /// Bytes of files that are over.
    bytes: u64,
    /// Lead of the clock of each place over that of the first one, in nanoseconds.
    ahead_ns: Vec<i64>,
}

/// A packet, and the place it was captured at.
pub(crate) struct Next<'a> {
    pub raw: Raw<'a>,
    pub place: u32,
}

/// A file that cannot be read on.
#[derive(Debug)]
pub(crate) struct Broken {
    pub file: usize,
    pub damage: CaptureError,
}

impl Places {
    pub(crate) fn new(places: Vec<Place>, ahead_ns: Vec<i64>) -> Places {
        Places { places, bytes: 0, ahead_ns }
    }

    /// The next packet. The rest of a damaged file is left out.
    pub(crate) fn read(&mut self) -> Result<Option<Next<'_>>, Broken> {
        let mut first: Option<(UnixTime, usize)> = None;
        for i in 0..self.places.len() {
            if let Some(time) = self.peek(i)?.filter(|&time| first.is_none_or(|(least, _)| time < least)) {
                first = Some((time, i));
            }
        }
        let Some((time, i)) = first else { return Ok(None) };
        let place = &mut self.places[i];
        let file = place.file;
        let number = u32::try_from(i).unwrap_or(u32::MAX);
        match place.reader.read() {
            Ok(raw) => Ok(raw.map(|raw| Next { raw: Raw { time, ..raw }, place: number })),
            Err(damage) => Err(Broken { file, damage }),
        }
    }

    /// Time of the next packet of a place, by the clock of the first.
    #[inline]
    fn peek(&mut self, i: usize) -> Result<Option<UnixTime>, Broken> {
        let ahead = self.ahead_ns.get(i).copied().unwrap_or(0);
        let place = &mut self.places[i];
        while !place.over {
            let file = place.file;
            let peeked = place.reader.peek();
            if let Ok(Some(time)) = peeked {
                return Ok(Some(time.behind_by(ahead)));
            }
            match place.later.pop_front() {
                None => place.over = true,
                Some((number, open)) => match open() {
                    Ok(reader) => {
                        self.bytes += place.reader.bytes_read();
                        (place.reader, place.file) = (reader, number);
                    }
                    // Pieces after it have their turn.
                    Err(damage) => return Err(Broken { file: number, damage }),
                },
            }
            if let Err(damage) = peeked {
                return Err(Broken { file, damage });
            }
        }
        Ok(None)
    }

    /// Bytes of the files read so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes + self.readers().map(Reader::bytes_read).sum::<u64>()
    }
    /// Reader of the open file of each place.
    fn readers(&self) -> impl Iterator<Item = &Reader> {
        self.places.iter().map(|place| &place.reader)
    }
    pub(crate) fn format(&self) -> &'static str {
        let mut names = self.readers().map(|reader| reader.format().name());
        let first = names.next().unwrap_or("pcap");
        if names.all(|other| other == first) { first } else { "several formats" }
    }
    pub(crate) fn packing(&self) -> Option<Packing> {
        self.readers().find_map(Reader::packing)
    }
    /// Parts of the open files that are not read.
    pub(crate) fn ignored(&self) -> Ignored {
        self.readers().map(Reader::ignored).fold(Ignored::default(), |sum, one| Ignored {
            comments: sum.comments + one.comments,
            secrets: sum.secrets + one.secrets,
        })
    }
    pub(crate) fn snap_bytes(&self) -> u32 {
        self.readers().map(Reader::snap_bytes).max().unwrap_or(0)
    }
}
