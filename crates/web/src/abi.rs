//! Exports of the module. Text goes in through [`buffer`] and comes out at [`answer_at`]; columns
//! are read where [`finish`] says they are. One module holds one run: pages that show two have two
//! modules.

#![allow(unsafe_code, reason = "names of exports; no pointer is followed here")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use airtcp_core::convert::count;

use crate::edit;
use crate::session::{Request, Session, engine, fault, names};

#[derive(Default)]
struct Module {
    question: Vec<u8>,
    answer: String,
    session: Option<Session>,
}

static MODULE: Mutex<Module> = Mutex::new(Module { question: Vec::new(), answer: String::new(), session: None });

fn module() -> MutexGuard<'static, Module> {
    MODULE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Module {
    /// Takes the text that was written into the buffer.
    fn question(&mut self) -> Result<String, String> {
        String::from_utf8(std::mem::take(&mut self.question)).map_err(|_| fault("the text is not UTF-8"))
    }
    /// Keeps the answer, and tells whether it is a good one.
    fn answer(&mut self, answer: Result<String, String>) -> u32 {
        let is_good = answer.is_ok();
        self.answer = answer.unwrap_or_else(|fault| fault);
        u32::from(is_good)
    }
    fn session(&mut self) -> Result<&mut Session, String> {
        self.session.as_mut().ok_or_else(|| fault("no run is open"))
    }
}

/// Room for so many bytes of text, which the next question takes.
#[unsafe(no_mangle)]
pub extern "C" fn buffer(bytes: usize) -> *mut u8 {
    let mut module = module();
    module.question.clear();
    module.question.resize(bytes, 0);
    module.question.as_mut_ptr()
}

/// Where the last answer is.
#[unsafe(no_mangle)]
pub extern "C" fn answer_at() -> *const u8 {
    module().answer.as_ptr()
}

/// Number of bytes of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn answer_bytes() -> u32 {
    count(module().answer.len())
}

/// Answers with the engine's name, and the names of everything registered.
#[unsafe(no_mangle)]
pub extern "C" fn about() -> u32 {
    let answer = serde_json::json!({ "engine": engine(), "names": names() }).to_string();
    module().answer(Ok(answer))
}

/// Answers with the JSON Schema of scenarios.
#[unsafe(no_mangle)]
pub extern "C" fn schema() -> u32 {
    module().answer(Ok(airtcp_sim::scenario::schema().to_string()))
}

/// Reads a scenario and answers with what it means, or with its faults (0).
#[unsafe(no_mangle)]
pub extern "C" fn check() -> u32 {
    let mut module = module();
    let answer = module.question().and_then(|text| Request::read(&text)?.describe());
    module.answer(answer)
}

/// Changes a value of a scenario's text, and answers with the text.
#[unsafe(no_mangle)]
pub extern "C" fn change() -> u32 {
    let mut module = module();
    let answer = module.question().and_then(|text| edit::change(&text));
    module.answer(answer)
}

/// As [`check`], and begins the run. A run before it is given up.
#[unsafe(no_mangle)]
pub extern "C" fn open() -> u32 {
    let mut module = module();
    module.session = None;
    let opened = module.question().and_then(|text| Session::open(&Request::read(&text)?));
    let answer = opened.map(|(session, description)| {
        module.session = Some(session);
        description
    });
    module.answer(answer)
}

/// Runs up to this simulated time, seconds. How far it came; below zero: the answer says why it
/// cannot go on.
#[unsafe(no_mangle)]
pub extern "C" fn advance(until_s: f64) -> f64 {
    let mut module = module();
    match module.session().and_then(|session| session.advance(until_s)) {
        Ok(now_s) => now_s,
        Err(fault) => {
            module.answer = fault;
            -1.0
        }
    }
}

/// Ends the run where it is. Answers with its summary, its hash, and where each column lies until
/// the next run is opened.
#[unsafe(no_mangle)]
pub extern "C" fn finish() -> u32 {
    let mut module = module();
    let answer = module.session().and_then(Session::finish);
    module.answer(answer)
}
