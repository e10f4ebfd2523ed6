//! The name of the server in the first message of TLS, which clients send in the clear (RFC 6066,
//! section 3).

/// Most bytes of a first message that are looked at.
pub const MOST_BYTES: usize = 16 * 1024;

/// Most records that a first message is spread over. Each is looked at again with each byte that
/// comes.
const MOST_RECORDS: usize = 256;

/// Content of the first bytes of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// More bytes may tell.
    NotYet,
    /// The server's name, in small letters.
    Name(String),
    /// It is not TLS, or names no server.
    Nothing,
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

/// Takes bytes off the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of `n` bytes.
    fn number(&mut self, n: usize) -> Option<usize> {
        Some(self.take(n)?.iter().fold(0, |all, &byte| all << 8 | usize::from(byte)))
    }

    /// The bytes that follow a length of `n` bytes.
    fn vector(&mut self, n: usize) -> Option<Reader<'a>> {
        let bytes = self.number(n)?;
        self.take(bytes).map(Reader)
    }
}

/// Reads the first bytes that a client has sent.
pub fn read(bytes: &[u8]) -> Hello {
    let otherwise = if bytes.len() < MOST_BYTES { Hello::NotYet } else { Hello::Nothing };
    // A message may be spread over several records.
    let (mut records, mut message) = (Reader(bytes), Vec::new());
    for _ in 0..MOST_RECORDS {
        match records.0.first() {
            None => return otherwise,
            Some(&HANDSHAKE) => {}
            Some(_) => return Hello::Nothing,
        }
        if records.0.get(1).is_some_and(|&major| major != 3) {
            return Hello::Nothing;
        }
        let whole = Reader(records.0.get(3..).unwrap_or_default()).vector(2);
        match whole {
            Some(Reader([])) => return Hello::Nothing,
            Some(Reader(part)) => {
                message.extend_from_slice(part);
                records.take(5 + part.len());
            }
            None => return otherwise,
        }
        if message[0] != CLIENT_HELLO {
            return Hello::Nothing;
        }
        let mut reader = Reader(&message[1..]);
        if let Some(body) = reader.vector(3) {
            return name(body).map_or(Hello::Nothing, Hello::Name);
        }
    }
    Hello::Nothing
}

fn name(mut body: Reader) -> Option<String> {
    body.take(2 + 32)?; // version, random
    body.vector(1)?; // session
    body.vector(2)?; // ciphers
    body.vector(1)?; // compression
    let mut extensions = body.vector(2)?;
    loop {
        let kind = extensions.number(2)?;
        let mut extension = extensions.vector(2)?;
        if kind == usize::from(SERVER_NAME) {
            let mut list = extension.vector(2)?;
            while let Some(kind) = list.take(1) {
                let text = list.vector(2)?;
                if kind == [HOST_NAME] {
                    let text = std::str::from_utf8(text.0).ok()?;
                    return (!text.is_empty()).then(|| text.to_ascii_lowercase());
                }
            }
            return None;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vector(n: usize, content: &[u8]) -> Vec<u8> {
        let mut all = u32::try_from(content.len()).unwrap().to_be_bytes()[4 - n..].to_vec();
        all.extend(content);
        all
    }

    /// A first message for the server `name`, in records of at most `most` bytes.
    pub(crate) fn client_hello(name: &str, most: usize) -> Vec<u8> {
        let mut extensions = vec![0, 23, 0, 0]; // extended_master_secret
        let mut entry = vec![0];
        entry.extend(vector(2, name.as_bytes()));
        extensions.extend([0, 0]);
        extensions.extend(vector(2, &vector(2, &entry)));
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend(vector(1, &[1; 32]));
        body.extend(vector(2, &[0x13, 0x01]));
        body.extend(vector(1, &[0]));
        body.extend(vector(2, &extensions));
        let mut message = vec![CLIENT_HELLO];
        message.extend(vector(3, &body));
        let mut all = Vec::new();
        for part in message.chunks(most) {
            all.extend([HANDSHAKE, 3, 1]);
            all.extend(vector(2, part));
        }
        all
    }

    #[test]
    fn the_name_is_read_once_the_message_is_there() {
        for most in [1, 7, 50, 16_384] {
            let bytes = client_hello("Video.Example.org", most);
            assert_eq!(read(&bytes), Hello::Name("video.example.org".to_owned()), "records of {most}");
            for n in 0..bytes.len() {
                assert_eq!(read(&bytes[..n]), Hello::NotYet, "records of {most}, {n} bytes");
            }
        }
    }

    #[test]
    fn other_things_have_no_name() {
        assert_eq!(read(b"GET / HTTP/1.1\r\n"), Hello::Nothing);
        assert_eq!(read(&[22, 3, 1, 0, 4, 2, 0, 0, 0]), Hello::Nothing, "a server's message");
        assert_eq!(read(&[22, 3, 1, 0, 0]), Hello::Nothing, "an empty record");
        assert_eq!(read(&client_hello("", 100)), Hello::Nothing);
        let tiny: Vec<u8> = [22, 3, 1, 0, 1, 1].repeat(300);
        assert_eq!(read(&tiny), Hello::Nothing, "more records than are looked at");
        let mut endless = vec![22, 3, 1, 0x3f, 0xff, 1, 0xff, 0xff, 0xff];
        endless.resize(MOST_BYTES, 0);
        assert_eq!(read(&endless), Hello::Nothing, "more than is looked at");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(mut bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0..200usize, value: u8, whole: bool) {
            if whole {
                bytes = client_hello("video.example.org", 60);
                let at = at % bytes.len();
                bytes[at] = value;
            }
            read(&bytes);
        }
    }
}
