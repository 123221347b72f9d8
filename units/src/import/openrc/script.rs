//! Parses a shell script into its simple commands, in order, each with its position: top level or
//! function, conditional or not. Nothing is evaluated, and nothing is skipped: a text that the
//! shell could not parse ends the parsing, with the place.
//!
//! The parser knows as much of the language as is needed to find the start and end of commands:
//! sh(1), "Shell Command Language" of POSIX. [`super::expansion`] expands words.

use super::quoting::{self, is_name};
use crate::limit;
use crate::text::yaml::Spot;

/// A word as written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    /// The text with quotes.
    pub(super) raw: &'a str,
    /// The place of its start.
    pub(super) at: Spot,
}

/// One simple command, or the head of a `case` or `for`.
#[derive(Debug)]
pub(super) struct Command<'a> {
    /// The words; at least one.
    pub(super) words: Vec<Word<'a>>,
    /// The enclosing function, by number.
    pub(super) within: Option<usize>,
    /// The command runs whenever the enclosing function or script runs.
    pub(super) certain: bool,
}

/// A function.
#[derive(Debug)]
pub(super) struct Function<'a> {
    /// The name.
    pub(super) name: &'a str,
    /// The place of the name.
    pub(super) at: Spot,
    /// The function is defined whenever the script is read.
    pub(super) certain: bool,
}

/// A script.
#[derive(Debug, Default)]
pub(super) struct Script<'a> {
    /// The commands in the order of the text.
    pub(super) commands: Vec<Command<'a>>,
    /// The functions in the order of the text.
    pub(super) functions: Vec<Function<'a>>,
    /// The place and reason, if parsing stopped before the end.
    pub(super) broken: Option<(Spot, &'static str)>,
}

/// An open construct.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    If,
    Loop,
    /// A pattern comes next.
    Case(bool),
    Brace,
    Paren,
    Function,
}

/// The part that must follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Nothing,
    /// The body of the function with this number.
    Body(usize),
    /// The rest of the head of `for NAME in …` or `case WORD`.
    Head,
}

/// The state of the parser, which works word by word.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    spot: Spot,
    script: Script<'a>,
    frames: Vec<Frame>,
    /// The functions among them.
    within: Vec<usize>,
    words: Vec<Word<'a>>,
    expected: Expected,
    /// The command continues after `&&`, `||` or `|`.
    chained: bool,
    /// Delimiters of here-documents that start on the next line, and whether leading tabs are
    /// removed.
    pending: Vec<(String, bool)>,
}

type Broken = (Spot, &'static str);

/// Parses as much of a script as possible.
pub(super) fn parse(text: &str) -> Script<'_> {
    let mut parser = Parser {
        text,
        at: 0,
        spot: Spot { line: 1, column: 1 },
        script: Script::default(),
        frames: Vec::new(),
        within: Vec::new(),
        words: Vec::new(),
        expected: Expected::Nothing,
        chained: false,
        pending: Vec::new(),
    };
    if let Err(broken) = parser.all() {
        parser.script.broken = Some(broken);
    }
    parser.script
}

impl<'a> Parser<'a> {
    fn all(&mut self) -> Result<(), Broken> {
        while let Some(c) = self.peek() {
            let (at, second) = (self.spot, self.behind(1));
            match c {
                ' ' | '\t' | '\r' => self.advance(1),
                '\\' if second == Some('\n') => self.advance(2),
                '#' => self.advance(self.rest().find('\n').unwrap_or(self.rest().len())),
                '\n' => {
                    self.advance(1);
                    self.end(false)?;
                    self.here_documents()?;
                }
                ';' if second == Some(';') => {
                    self.advance(2);
                    self.end(false)?;
                    match self.frames.last_mut() {
                        Some(Frame::Case(pattern)) => *pattern = true,
                        _ => return Err((at, "`;;` outside of a `case`")),
                    }
                }
                ';' => self.separator(1, false)?,
                '&' if second == Some('&') => self.separator(2, true)?,
                '|' if second == Some('|') => self.separator(2, true)?,
                '&' => self.separator(1, false)?,
                '|' => self.pipe()?,
                '(' => self.open(at)?,
                ')' => self.close(at)?,
                '<' | '>' => self.redirection(at)?,
                _ => self.word()?,
            }
        }
        self.end(false)?;
        match self.frames.is_empty() && self.expected == Expected::Nothing {
            true => Ok(()),
            false => Err((self.spot, "a block is not closed")),
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn behind(&self, many: usize) -> Option<char> {
        self.rest().chars().nth(many)
    }

    /// Advances by a number of bytes.
    fn advance(&mut self, bytes: usize) {
        for c in self.rest().get(..bytes).unwrap_or_default().chars() {
            match c {
                '\n' => {
                    self.spot = Spot { line: self.spot.line.saturating_add(1), column: 1 };
                }
                _ => self.spot.column = self.spot.column.saturating_add(1),
            }
        }
        self.at = self.at.saturating_add(bytes);
    }

    fn is_pattern(&self) -> bool {
        self.words.is_empty() && self.frames.last() == Some(&Frame::Case(true))
    }

    fn separator(&mut self, bytes: usize, chains: bool) -> Result<(), Broken> {
        self.advance(bytes);
        self.end(chains)
    }

    /// Each side of a pipe runs in its own shell.
    fn pipe(&mut self) -> Result<(), Broken> {
        self.advance(1);
        if self.is_pattern() {
            return Ok(());
        }
        self.chained = true;
        self.end(true)
    }

    fn open(&mut self, at: Spot) -> Result<(), Broken> {
        self.advance(1);
        if self.is_pattern() {
            return Ok(());
        }
        let blank = |c: char| c == ' ' || c == '\t';
        let inside = self.rest().trim_start_matches(blank);
        match self.words.as_slice() {
            [] => {
                self.expected = Expected::Nothing;
                self.frames.push(Frame::Paren);
                Ok(())
            }
            &[name] if is_name(name.raw) && inside.starts_with(')') => {
                let certain = self.is_certain();
                self.advance(self.rest().len() - inside.len() + 1);
                self.expected = Expected::Body(self.script.functions.len());
                self.script.functions.push(Function { name: name.raw, at: name.at, certain });
                self.words.clear();
                Ok(())
            }
            _ => Err((at, "`(` where no command begins")),
        }
    }

    fn close(&mut self, at: Spot) -> Result<(), Broken> {
        self.advance(1);
        if let (true, Some(Frame::Case(pattern))) = (self.is_pattern(), self.frames.last_mut()) {
            *pattern = false;
            return Ok(());
        }
        self.end(false)?;
        self.chained = false;
        self.pop(Frame::Paren, at)
    }

    /// Skips a redirection; the text of a here-document is no part of the script.
    fn redirection(&mut self, at: Spot) -> Result<(), Broken> {
        let sign = self.rest();
        let number = |word: &Word<'_>| word.raw.bytes().all(|byte| byte.is_ascii_digit());
        let touches = self.text.get(..self.at).is_some_and(|before| {
            before.ends_with(|c: char| c.is_ascii_digit()) && self.words.last().is_some_and(number)
        });
        if touches {
            self.words.pop();
        }
        let here = sign.starts_with("<<") && !sign.starts_with("<<<");
        let length = sign.find(|c| !matches!(c, '<' | '>' | '&' | '|')).unwrap_or(sign.len());
        self.advance(length);
        let tabs = here && self.peek() == Some('-');
        self.advance(usize::from(tabs));
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.advance(1);
        }
        let target = self.take(at)?;
        if here {
            self.pending.push((target.raw.replace(['\'', '"', '\\'], ""), tabs));
        }
        Ok(())
    }

    fn here_documents(&mut self) -> Result<(), Broken> {
        for (end, tabs) in std::mem::take(&mut self.pending) {
            let at = self.spot;
            loop {
                if self.rest().is_empty() {
                    return Err((at, "a here-document that is not ended"));
                }
                let line = self.rest().split_inclusive('\n').next().unwrap_or_default();
                self.advance(line.len());
                let line = line.trim_end_matches(['\n', '\r']);
                if (if tabs { line.trim_start_matches('\t') } else { line }) == end {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the word that starts here; it may be empty.
    fn take(&mut self, at: Spot) -> Result<Word<'a>, Broken> {
        let Some(length) = quoting::word(self.rest()) else {
            return Err((at, "a quote or a bracket that is not closed"));
        };
        let raw = self.rest().get(..length).unwrap_or_default();
        self.advance(length);
        Ok(Word { raw, at })
    }

    fn word(&mut self) -> Result<(), Broken> {
        let at = self.spot;
        let word = self.take(at)?;
        if self.is_pattern() {
            if word.raw == "esac" {
                self.frames.pop();
            }
            return Ok(());
        }
        if let Expected::Body(function) = self.expected {
            self.expected = Expected::Nothing;
            return match word.raw {
                "{" => {
                    self.frames.push(Frame::Function);
                    self.within.push(function);
                    Ok(())
                }
                _ => Err((at, "a function whose body is not in braces")),
            };
        }
        if self.words.is_empty() && self.reserved(word)? {
            return Ok(());
        }
        if self.expected == Expected::Head
            && word.raw == "in"
            && self.words.first().is_some_and(|first| first.raw == "case")
        {
            self.end(false)?;
            self.frames.push(Frame::Case(true));
            return Ok(());
        }
        self.words.push(word);
        Ok(())
    }

    /// Handles a reserved word of the language.
    fn reserved(&mut self, word: Word<'a>) -> Result<bool, Broken> {
        match word.raw {
            "if" => self.frames.push(Frame::If),
            "while" | "until" => self.frames.push(Frame::Loop),
            "{" => self.frames.push(Frame::Brace),
            "then" | "elif" | "else" | "do" | "!" => {}
            "fi" => self.pop(Frame::If, word.at)?,
            "done" => self.pop(Frame::Loop, word.at)?,
            "esac" => match self.frames.pop() {
                Some(Frame::Case(_)) => {}
                _ => return Err((word.at, "the end of a block that is not open")),
            },
            "}" => match self.frames.pop() {
                Some(Frame::Brace) => {}
                Some(Frame::Function) => drop(self.within.pop()),
                _ => return Err((word.at, "the end of a block that is not open")),
            },
            "for" | "case" => {
                if word.raw == "for" {
                    self.frames.push(Frame::Loop);
                }
                self.expected = Expected::Head;
                self.words.push(word);
            }
            _ => return Ok(false),
        }
        if matches!(word.raw, "}" | "fi" | "done" | "esac") {
            self.chained = false;
        }
        Ok(true)
    }

    fn pop(&mut self, frame: Frame, at: Spot) -> Result<(), Broken> {
        match self.frames.pop() {
            Some(found) if found == frame => Ok(()),
            _ => Err((at, "the end of a block that is not open")),
        }
    }

    fn is_certain(&self) -> bool {
        !self.chained && matches!(self.frames.last(), None | Some(Frame::Function))
    }

    /// Ends the command; the next one may depend on it.
    fn end(&mut self, chains: bool) -> Result<(), Broken> {
        let head = self.expected == Expected::Head;
        if head {
            self.expected = Expected::Nothing;
        }
        if !self.words.is_empty() {
            if self.script.commands.len() >= limit::SCRIPT_COMMANDS {
                return Err((self.spot, "more commands than are read"));
            }
            let within = self.within.last().copied();
            let words = std::mem::take(&mut self.words);
            let certain = !head && self.is_certain();
            self.script.commands.push(Command { words, within, certain });
            self.chained = chains;
        }
        Ok(())
    }
}
