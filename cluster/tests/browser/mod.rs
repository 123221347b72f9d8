//! A headless Chromium with one tab, controlled over its debugging protocol: page contents, console
//! errors, screenshots. Needs `chromium`.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one tab.
pub(crate) struct Browser {
    child: Child,
    folder: PathBuf,
    socket: TcpStream,
    asked: u64,
    /// Errors on the console.
    pub(crate) errors: Vec<String>,
}

impl Browser {
    /// Opens a page. `folder` is the browser's data, deleted at the end.
    pub(crate) fn open(url: &str, folder: PathBuf) -> Browser {
        std::fs::create_dir_all(&folder).unwrap();
        let child = Command::new("chromium")
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"])
            .args(["--disable-dev-shm-usage", "--no-first-run"])
            .arg(format!("--user-data-dir={}", folder.display()))
            // Temporary files of a killed browser are deleted with the folder.
            .env("TMPDIR", &folder)
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let port = port(&folder);
        let tab = http(port, &format!("PUT /json/new?{url} HTTP/1.1"));
        let tab: Value = serde_json::from_str(&tab).unwrap();
        let path = tab["webSocketDebuggerUrl"].as_str().unwrap();
        let path = path.split_once("/devtools").unwrap().1.to_string();
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let upgrade = format!(
            "GET /devtools{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        socket.write_all(upgrade.as_bytes()).unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            socket.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        let mut browser = Browser { child, folder, socket, asked: 0, errors: Vec::new() };
        browser.ask("Runtime.enable", json!({}));
        browser.ask("Log.enable", json!({}));
        browser
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let text = json!({"id": self.asked, "method": method, "params": params}).to_string();
        let length = text.len();
        // A mask of zeros leaves the text unchanged.
        let mut frame = vec![0x81, 0x80 | 126];
        frame.extend(u16::try_from(length).unwrap().to_be_bytes());
        if length < 126 {
            frame = vec![0x81, 0x80 | u8::try_from(length).unwrap()];
        }
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        self.socket.write_all(&frame).unwrap();
        loop {
            let message = self.message();
            if message["id"] == self.asked {
                return message["result"].clone();
            }
            let params = &message["params"];
            let method = message["method"].as_str().unwrap_or_default();
            let error = method == "Runtime.exceptionThrown"
                || (method == "Runtime.consoleAPICalled" && params["type"] == "error")
                || (method == "Log.entryAdded" && params["entry"]["level"] == "error");
            if error {
                self.errors.push(params.to_string());
            }
        }
    }

    fn message(&mut self) -> Value {
        let mut head = [0; 2];
        self.socket.read_exact(&mut head).unwrap();
        let length = match head[1] & 0x7f {
            126 => {
                let mut bytes = [0; 2];
                self.socket.read_exact(&mut bytes).unwrap();
                u64::from(u16::from_be_bytes(bytes))
            }
            127 => {
                let mut bytes = [0; 8];
                self.socket.read_exact(&mut bytes).unwrap();
                u64::from_be_bytes(bytes)
            }
            short => u64::from(short),
        };
        let mut text = vec![0; usize::try_from(length).unwrap()];
        self.socket.read_exact(&mut text).unwrap();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        self.ask("Runtime.evaluate", json!({"expression": expression}))["result"]["value"].clone()
    }

    /// Takes a screenshot as PNG.
    pub(crate) fn picture(&mut self, width: u32, height: u32) -> Vec<u8> {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", size);
        let shot = self.ask("Page.captureScreenshot", json!({"format": "png"}));
        let mut child = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut to = child.stdin.take().unwrap();
        let text = shot["data"].as_str().unwrap().to_string();
        let writing = std::thread::spawn(move || to.write_all(text.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writing.join().unwrap().unwrap();
        output.stdout
    }

    /// Waits until the page shows all parts.
    pub(crate) fn shows(&mut self, parts: &[&str]) {
        let began = Instant::now();
        loop {
            let text = self.evaluate("document.body.innerText");
            let text = text.as_str().unwrap_or_default();
            if parts.iter().all(|part| text.contains(part)) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{parts:?} not in:\n{text}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns the browser's port once it is known.
fn port(folder: &Path) -> u16 {
    let began = Instant::now();
    loop {
        let text = std::fs::read_to_string(folder.join("DevToolsActivePort")).unwrap_or_default();
        if let Some(port) = text.lines().next().and_then(|line| line.parse().ok()) {
            return port;
        }
        assert!(began.elapsed() < PATIENCE, "the browser does not listen");
        std::thread::yield_now();
    }
}

/// Returns the body of the browser's own answer.
fn http(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!("{request}\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&bytes).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
    let mut body = vec![0; length.trim().parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    String::from_utf8_lossy(&body).into_owned()
}
