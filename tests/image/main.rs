//! The image of the project's Dockerfile is built and serves, without a registry or an engine.
//!
//! The base images are replaced by a debootstrap of Debian, and in the build stage `cargo` by a
//! script that hands over the binaries this run has built: every line of the Dockerfile runs.
//! Needs root, as debootstrap does.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use system_tests::cluster::{broker_binary, mqbench_binary};
use system_tests::ledger::Ledger;
use system_tests::ports::Ports;
use system_tests::process::{Process, run};
use system_tests::{cache, http_get, workspace_folder};

const RELEASE: &str = "bookworm";
const BASE: &str = "localhost/tandem-test-base";
const BUILDER: &str = "localhost/tandem-test-builder";
const IMAGE: &str = "localhost/tandem-test-broker";

/// buildah with its images in a folder of the test's own.
struct Buildah {
    folder: PathBuf,
}

impl Buildah {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("buildah");
        command.arg("--root").arg(self.folder.join("images"));
        command.arg("--runroot").arg(self.folder.join("run"));
        command.args(["--storage-driver", "vfs"]).args(words);
        command
    }

    fn run(&self, words: &[&str]) -> Result<String> {
        let text = run("buildah", &mut self.command(words))?;
        Ok(text.trim().to_owned())
    }
}

/// A minimal Debian as a tar file, kept between runs.
fn base() -> Result<PathBuf> {
    let entry = cache::entry("debian-base", &[RELEASE.as_bytes()], |folder| {
        let root = folder.join("root");
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.args(["--variant=minbase", RELEASE]).arg(&root).arg(mirror()?);
        run("debootstrap", &mut debootstrap)?;
        let mut tar = Command::new("tar");
        tar.args(["--exclude=./dev/*", "--exclude=./var/cache/apt/archives/*.deb", "-C"]);
        tar.arg(&root).arg("-cf").arg(folder.join("base.tar")).arg(".");
        run("tar", &mut tar)?;
        fs::remove_dir_all(&root).context("remove the unpacked base")
    })?;
    Ok(entry.join("base.tar"))
}

/// Where this machine's apt takes the release from.
fn mirror() -> Result<String> {
    let mut apt = Command::new("apt-get");
    apt.args(["indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages"]);
    let targets = run("apt-get indextargets", &mut apt)?;
    let mine = targets.lines().find_map(|line| line.strip_prefix(&format!("{RELEASE} ")));
    mine.map(str::to_owned).ok_or_else(|| anyhow!("apt has no source for {RELEASE}: {targets}"))
}

/// Builds the Dockerfile's image from what this run has built.
fn build(buildah: &Buildah) -> Result<()> {
    let base = base()?;
    let empty = buildah.run(&["from", "scratch"])?;
    buildah.run(&["add", "-q", &empty, &base.display().to_string(), "/"])?;
    buildah.run(&["commit", "-q", &empty, BASE])?;
    let context = buildah.folder.join("context");
    fs::create_dir_all(&context)?;
    fs::copy(broker_binary()?, context.join("broker")).context("copy the broker")?;
    fs::copy(mqbench_binary()?, context.join("mqbench")).context("copy mqbench")?;
    let cargo = "#!/bin/sh\nmkdir -p target/release && cp broker mqbench target/release/\n";
    fs::write(context.join("cargo"), cargo)?;
    fs::set_permissions(context.join("cargo"), fs::Permissions::from_mode(0o755))?;
    let builder = format!("FROM {BASE}\nCOPY cargo /usr/local/bin/cargo\n");
    let builder_file = context.join("builder");
    fs::write(&builder_file, builder)?;
    image(buildah, BUILDER, &builder_file, &context, &[])?;
    let bases = [format!("BUILD_IMAGE={BUILDER}"), format!("RUNTIME_IMAGE={BASE}")];
    image(buildah, IMAGE, &workspace_folder().join("Dockerfile"), &context, &bases)
}

fn image(
    buildah: &Buildah,
    name: &str,
    file: &Path,
    context: &Path,
    arguments: &[String],
) -> Result<()> {
    let mut command = buildah.command(&["build", "--isolation", "chroot", "-t", name, "-f"]);
    command.arg(file);
    for argument in arguments {
        command.args(["--build-arg", argument]);
    }
    command.arg(context);
    run("buildah build", &mut command).map(drop)
}

#[test]
fn the_image_is_built_and_serves_as_an_ordinary_user() {
    let folder = tempfile::tempdir().unwrap();
    let buildah = Buildah { folder: folder.path().to_path_buf() };
    build(&buildah).unwrap();
    let container = buildah.run(&["from", IMAGE]).unwrap();
    let inside = |words: &[&str]| {
        let run = ["run", "--isolation", "chroot", &container, "--"];
        buildah.run(&[&run, words].concat()).unwrap()
    };
    assert_eq!(inside(&["id", "-un"]), "tandem");
    assert!(inside(&["broker", "--version"]).starts_with("broker "));
    assert!(inside(&["mqbench", "--help"]).contains("mqbench"));
    let ports = Ports::take().unwrap();
    let script = format!(
        "exec broker standalone --data /data --namesrv-port {} --set brokerIP1=127.0.0.1 \
         --set listenPort={} --set httpListenPort={}",
        ports.name_server(),
        ports.listen(),
        ports.http()
    );
    let words = ["run", "--isolation", "chroot", &container, "--", "sh", "-c", &script];
    let log = folder.path().join("broker.out");
    let mut process = Process::spawn("the image", &buildah.command(&words), &log).unwrap();
    let ready = || http_get(ports.http(), "/readyz").is_ok_and(|text| text.contains(" 200 "));
    process.wait_until("ready", Duration::from_secs(120), ready).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let address = format!("127.0.0.1:{}", ports.listen());
    let mut ledger = Ledger::new("Image", 4);
    let found = runtime.block_on(async {
        ledger.make_topic(&address).await?;
        let producers = ledger.produce(&address, 4);
        tokio::time::sleep(Duration::from_millis(500)).await; // the load itself
        ledger.collect(producers).await?;
        ledger.check(&address).await
    });
    assert!(found.unwrap().promised > 0);
    process.terminate(Duration::from_secs(60)).unwrap();
}
