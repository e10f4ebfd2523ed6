//! The end of a run before it began.

/// An input that is wrong, or a machine that does not allow what is asked.
pub(crate) const BAD_INPUT: u8 = 2;

/// Why there was no run: a sentence, and the exit code.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) message: String,
    pub(crate) code: u8,
}

impl Stop {
    pub(crate) fn bad_input(message: impl Into<String>) -> Stop {
        Stop { message: message.into(), code: BAD_INPUT }
    }
    pub(crate) fn failure(message: impl Into<String>) -> Stop {
        Stop { message: message.into(), code: 1 }
    }
}
