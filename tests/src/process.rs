//! Child processes with a log file, signals by process id, and waiting on conditions.
//!
//! A child never outlives the suite: it is killed when its [`Process`] is dropped, and by the
//! kernel when the test program itself dies (statics are not dropped, and a run may be cut).

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

const POLL: Duration = Duration::from_millis(20);

/// A running child whose output goes to a file.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with no input and both outputs appended to `log`.
    ///
    /// # Errors
    /// When the log can't be opened or the program can't be started.
    pub fn spawn(name: &str, command: &Command, log: &Path) -> Result<Process> {
        let output = File::options().create(true).append(true).open(log).context("open a log")?;
        let errors = output.try_clone().context("open a log")?;
        let mut bound = bound_to_us(command);
        bound.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = spawn_on_lasting_thread(bound).with_context(|| format!("start {name}"))?;
        Ok(Process { name: name.to_owned(), child, log: log.to_path_buf() })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not exited yet.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it at once, as `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) {
        let _already_gone = self.child.kill();
        let _reaped = self.child.wait();
    }

    /// Asks it to stop with SIGTERM and waits for its exit.
    ///
    /// # Errors
    /// When it is still running after `within`; it is killed then.
    pub fn terminate(&mut self, within: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM);
        self.wait(within)
    }

    /// Sends a signal; a process that is gone already is no error.
    pub fn signal(&mut self, signal: Signal) {
        if self.is_running()
            && let Some(pid) = i32::try_from(self.id()).ok().and_then(Pid::from_raw)
        {
            let _may_have_exited_meanwhile = kill_process(pid, signal);
        }
    }

    /// Waits for its exit.
    ///
    /// # Errors
    /// When it is still running after `within`; it is killed then, and the end of its log told.
    pub fn wait(&mut self, within: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().context("wait for a child")? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                self.kill();
                bail!("{} still ran after {within:?}\n{}", self.name, self.log_end());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Waits until `ready` holds, and fails early when the process exits.
    ///
    /// # Errors
    /// When it exits or `within` passes first; the end of its log is told.
    pub fn wait_until(
        &mut self,
        what: &str,
        within: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + within;
        while !ready() {
            if let Some(status) = self.child.try_wait().context("wait for a child")? {
                bail!("{} ended ({}) before {what}\n{}", self.name, told(status), self.log_end());
            }
            if Instant::now() > deadline {
                bail!("{}: not {what} within {within:?}\n{}", self.name, self.log_end());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// All it has printed so far.
    pub fn log_text(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Where its output goes.
    pub fn log_file(&self) -> &Path {
        &self.log
    }

    /// The last lines of its output, for a failure's text.
    pub fn log_end(&self) -> String {
        let text = self.log_text();
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(60);
        format!("--- {} ---\n{}", self.log.display(), lines[from..].join("\n"))
    }

    /// CPU time used so far, user and system, all threads; resolution 10 ms.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn cpu_time(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id()))?;
        // The command name may hold blanks: fields are counted after its closing parenthesis.
        let fields: Vec<&str> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| -> Result<u64> {
            let field = fields.get(at).ok_or_else(|| anyhow!("short /proc stat line"))?;
            Ok(field.parse()?)
        };
        let used = ticks(11)? + ticks(12)?;
        let per_second = rustix::param::clock_ticks_per_second();
        Ok(Duration::from_millis(used * 1000 / per_second))
    }

    /// Anonymous resident memory (heap, stacks) in bytes; mapped files do not count.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn anonymous_memory(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"))
            .ok_or_else(|| anyhow!("no RssAnon line"))?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_running() {
            self.kill();
        }
    }
}

/// Polls `ready` until it holds.
///
/// # Errors
/// When `within` passes first.
pub fn wait_until(what: &str, within: Duration, mut ready: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + within;
    while !ready() {
        if Instant::now() > deadline {
            bail!("not within {within:?}: {what}");
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Whether something accepts connections on this port of the loopback address.
pub fn listens(port: u16) -> bool {
    std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// Runs `command` to its end and gives both outputs, merged in no order, stdout first.
///
/// # Errors
/// When it can't be started or exits with another code than 0; its output is told.
pub fn run(name: &str, command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("start {name}"))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        bail!("{name} failed ({}):\n{text}", told(output.status));
    }
    Ok(text)
}

fn told(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// The same command, run through `setpriv`, which asks the kernel to kill it when its parent
/// dies and then becomes the program: the process id stays.
fn bound_to_us(command: &Command) -> Command {
    let mut bound = Command::new("setpriv");
    bound.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(key, value),
            None => bound.env_remove(key),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        bound.current_dir(folder);
    }
    bound
}

type Answer = SyncSender<std::io::Result<Child>>;

/// "Parent" means the thread that forked. Test threads end early, so one thread that lasts as
/// long as the program starts all children.
fn spawn_on_lasting_thread(command: Command) -> Result<Child> {
    static STARTER: OnceLock<SyncSender<(Command, Answer)>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (orders, inbox) = sync_channel::<(Command, Answer)>(16);
        std::thread::spawn(move || {
            for (mut command, answer) in inbox {
                let _asker_gone = answer.send(command.spawn());
            }
        });
        orders
    });
    let (answer, child) = sync_channel(1);
    starter.send((command, answer)).map_err(|_| anyhow!("the starting thread is gone"))?;
    Ok(child.recv().context("the starting thread is gone")??)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, log: &Path) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::spawn("shell", &command, log).unwrap()
    }

    #[test]
    fn output_is_kept_and_the_exit_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut process = shell("echo out; echo err >&2; exit 3", &log);
        assert_eq!(process.wait(Duration::from_secs(20)).unwrap().code(), Some(3));
        assert_eq!(process.log_text(), "out\nerr\n");
        let mut early = shell("exit 4", &log);
        let error = early.wait_until("never", Duration::from_secs(20), || false).unwrap_err();
        assert!(error.to_string().contains("exit code 4"), "{error}");
    }

    #[test]
    fn terminate_and_kill_reach_the_program_itself() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut process = shell("trap 'echo asked; exit 0' TERM; echo up; sleep 60 & wait", &log);
        wait_until("up", Duration::from_secs(20), || process.log_text().contains("up")).unwrap();
        assert_eq!(process.terminate(Duration::from_secs(20)).unwrap().code(), Some(0));
        assert!(process.log_text().contains("asked"));
        let mut other = shell("exec sleep 60", &log);
        assert!(other.is_running());
        other.kill();
        assert!(!other.is_running());
    }

    #[test]
    fn a_childs_figures_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; exec sleep 60";
        let process = shell(script, &folder.path().join("log"));
        wait_until("done", Duration::from_secs(60), || process.log_text().contains("done"))
            .unwrap();
        assert!(process.cpu_time().unwrap() > Duration::ZERO);
        assert!(process.anonymous_memory().unwrap() > 4096);
    }
}
