//! Orders of the control pipe, one per line.

use super::flags::{End, number};

/// One line of the control pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Become ready.
    Ready,
    /// Exit or die.
    End(End),
    /// Print on stdout.
    Say(String),
    /// Print on stderr.
    Err(String),
    /// Send this datagram.
    Notify(String),
    /// Send this datagram that many times.
    Flood(usize, String),
    /// Send this datagram with the file of this path, or with one end of a socket pair (`-`) whose
    /// other end closes at the next `store`.
    Store(String, String),
    /// Send this many datagrams, each with this many copies of the file of this path, which stays
    /// open.
    Pass(usize, usize, String),
    /// Start this many idle children.
    Fork(usize),
    /// Start this many processes whose parent exits.
    Orphan(usize),
    /// Start or stop watchdog pings.
    Pings(bool),
    /// Print this many numbered lines.
    Lines(usize),
    /// Ignore this signal from now on.
    Ignore(String),
}

impl Order {
    /// Parses one line.
    ///
    /// # Errors
    /// The mistake in the line.
    pub fn parse(line: &str) -> Result<Order, String> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let text = rest.to_owned();
        Ok(match verb {
            "ready" => Order::Ready,
            "exit" => Order::End(End::Exit(number(rest)?)),
            "die" => Order::End(End::Signal(text)),
            "say" => Order::Say(text),
            "err" => Order::Err(text),
            "notify" => Order::Notify(rest.replace("\\n", "\n")),
            "flood" => {
                let (count, text) = rest.split_once(' ').unwrap_or((rest, ""));
                Order::Flood(number(count)?, text.replace("\\n", "\n"))
            }
            "store" => {
                let (path, text) = rest.split_once(' ').unwrap_or((rest, ""));
                Order::Store(path.to_owned(), text.replace("\\n", "\n"))
            }
            "pass" => {
                let mut words = rest.splitn(3, ' ');
                let mut next = || words.next().unwrap_or("").to_owned();
                let (datagrams, each) = (next(), next());
                Order::Pass(number(&datagrams)?, number(&each)?, next())
            }
            "fork" => Order::Fork(number(rest)?),
            "orphan" => Order::Orphan(number(rest)?),
            "pings" => Order::Pings(rest == "on"),
            "lines" => Order::Lines(number(rest)?),
            "ignore" => Order::Ignore(text),
            _ => return Err(format!("no order `{line}`")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notification_may_have_several_lines() {
        let order = Order::parse("notify READY=1\\nSTATUS=up and well");
        assert_eq!(order, Ok(Order::Notify("READY=1\nSTATUS=up and well".to_owned())));
    }

    #[test]
    fn unknown_order_is_refused() {
        assert!(Order::parse("dance").is_err());
        assert!(Order::parse("exit now").is_err());
    }
}
