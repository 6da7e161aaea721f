//! Apache RocketMQ 4.9.3 from Maven Central's jars, as it is run for real, and mqadmin 4.9.8.
//!
//! Only how its programs are started lives here; [`crate::cluster`] starts and stops them.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{cache, package_folder};

/// What a Java broker prints once it serves and has registered.
pub const BROKER_SERVES: &str = "boot success";

/// Java 17 must be told to let the store unmap a file; without it an orderly stop fails.
const OPENED: [&str; 6] = [
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
];

/// The folder with the jars of name server and broker 4.9.3; downloaded when missing.
///
/// # Errors
/// When Maven can't bring them.
pub fn server_jars() -> Result<PathBuf> {
    cache::jars("apache-server", &package_folder().join("apache/server/pom.xml"), &[])
}

/// The command that runs a real name server with its home in `folder`.
///
/// # Errors
/// When the jars can't be brought or the home can't be written.
pub fn name_server_command(folder: &Path, config: &Path) -> Result<Command> {
    let mut command = java(folder, &all_of(&server_jars()?), "256m", "namesrv")?;
    command.args(["org.apache.rocketmq.namesrv.NamesrvStartup", "-c"]).arg(config);
    Ok(command)
}

/// The command that runs a real broker with its home in `folder` and this heap (`512m`).
///
/// # Errors
/// When the jars can't be brought or the home can't be written.
pub fn broker_command(folder: &Path, config: &Path, heap: &str) -> Result<Command> {
    let mut command = java(folder, &all_of(&server_jars()?), heap, "broker")?;
    command.args(["org.apache.rocketmq.broker.BrokerStartup", "-c"]).arg(config);
    Ok(command)
}

/// `java` with its flags, a home in `folder` and a class path.
fn java(folder: &Path, class_path: &str, heap: &str, log: &str) -> Result<Command> {
    let home = folder.join("home");
    std::fs::create_dir_all(home.join("conf")).context("make a Java home")?;
    let file = home.join(format!("{log}.log"));
    std::fs::write(home.join(format!("conf/logback_{log}.xml")), logback(&file))
        .context("write a log configuration")?;
    let mut command = Command::new("java");
    command
        .env("ROCKETMQ_HOME", &home)
        .args(["-server", &format!("-Xms{heap}"), &format!("-Xmx{heap}")])
        .args(["-XX:MaxDirectMemorySize=1g", "-XX:+UseG1GC"])
        .args(OPENED)
        .arg(format!("-Duser.home={}", home.display()))
        .arg(format!("-Drocketmq.home.dir={}", home.display()))
        .args(["-cp", class_path]);
    Ok(command)
}

/// The class path of all jars in a folder.
fn all_of(jars: &Path) -> String {
    format!("{}/*", jars.display())
}

fn logback(file: &Path) -> String {
    format!(
        "<configuration>\n\
         <appender name=\"file\" class=\"ch.qos.logback.core.FileAppender\"><file>{}</file>\
         <encoder><pattern>%d %p %c{{1}} - %m%n</pattern></encoder></appender>\n\
         <root level=\"INFO\"><appender-ref ref=\"file\"/></root>\n\
         </configuration>\n",
        file.display()
    )
}

/// The class path of mqadmin and the programs beside it.
fn tools_class_path() -> Result<String> {
    let sources = package_folder().join("apache/tools");
    let jars = cache::jars("apache-tools", &sources.join("pom.xml"), &[])?;
    let classes = cache::classes("apache-tools-driver", &sources, &jars)?;
    Ok(format!("{}:{}", classes.display(), all_of(&jars)))
}

/// The command of the program `Online`: a Java producer and consumer that stay connected. Give it
/// name server, topic, broker name, producer group, consumer group and a number of messages.
///
/// # Errors
/// When the jars can't be brought or the home can't be written.
pub fn online_command(folder: &Path) -> Result<Command> {
    let mut command = java(folder, &tools_class_path()?, "256m", "tools")?;
    command.arg("Online");
    Ok(command)
}

/// mqadmin in one Java process: each command runs in it, so a command costs no Java start.
#[derive(Debug)]
pub struct Admin {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Admin {
    /// Starts mqadmin 4.9.8 against `name_server`, with its home in `folder`.
    ///
    /// # Errors
    /// When the jars can't be brought or Java does not start.
    pub fn start(folder: &Path, name_server: &str) -> Result<Admin> {
        let mut command = java(folder, &tools_class_path()?, "256m", "tools")?;
        command
            .arg("Admin")
            .env("NAMESRV_ADDR", name_server)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut child = command.spawn().context("start mqadmin")?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("mqadmin has no pipes");
        };
        Ok(Admin { child, input, output: BufReader::new(output) })
    }

    /// Runs one command, `["topicRoute", "-t", "T"]`, and gives all it printed. mqadmin's exit
    /// code says nothing, so the text is all there is; a stack trace is part of it.
    ///
    /// # Errors
    /// When mqadmin's process is gone.
    pub fn run(&mut self, command: &[&str]) -> Result<String> {
        writeln!(self.input, "{}", command.join("\t")).context("ask mqadmin")?;
        self.input.flush().context("ask mqadmin")?;
        let mut size = String::new();
        self.output.read_line(&mut size).context("read mqadmin's answer")?;
        let size: usize = size
            .trim()
            .parse()
            .with_context(|| format!("mqadmin ended during {command:?} ({size:?})"))?;
        let mut text = vec![0; size];
        self.output.read_exact(&mut text).context("read mqadmin's answer")?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
