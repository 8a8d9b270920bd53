//! An etcd program that a test starts for itself.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::net::TcpStream;

/// A program that listens. Dropping this ends it, and deletes its data.
pub(crate) struct Program {
    pub(crate) address: String,
    command: Command,
    child: Child,
    folder: Option<PathBuf>,
}

impl Program {
    /// Another etcd, with its data in an empty folder.
    pub(crate) async fn etcd(name: &str, more: &[&str]) -> Self {
        let folder = folder(name);
        let _ = std::fs::remove_dir_all(&folder);
        let [client, peer] = [free(), free()];
        let [at_client, at_peer] = [&client, &peer].map(|address| format!("http://{address}"));
        let mut command = program();
        command.arg("--data-dir").arg(&folder).arg("--unsafe-no-fsync").args(more);
        command.args(["--listen-client-urls", &at_client, "--advertise-client-urls", &at_client]);
        command.args(["--listen-peer-urls", &at_peer, "--initial-advertise-peer-urls", &at_peer]);
        command.args(["--initial-cluster", &format!("default={at_peer}")]);
        Self::start(command, client, Some(folder)).await
    }

    /// A gRPC proxy before this server.
    pub(crate) async fn grpc_proxy(server: &str) -> Self {
        let (mut command, address) = (program(), free());
        command.args(["grpc-proxy", "start", "--endpoints", server, "--listen-addr", &address]);
        Self::start(command, address, None).await
    }

    async fn start(mut command: Command, address: String, folder: Option<PathBuf>) -> Self {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let program = Self { address, command, child, folder };
        program.listens().await;
        program
    }

    async fn listens(&self) {
        let listens = async {
            while TcpStream::connect(&self.address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), listens).await.expect("it listens");
    }

    /// Stops it, and starts it again when this is done.
    pub(crate) async fn restart(&mut self, meanwhile: impl FnOnce()) {
        self.stop();
        meanwhile();
        self.child = self.command.spawn().unwrap();
        self.listens().await;
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.stop();
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn program() -> Command {
    let mut command = Command::new(std::env::var_os("TIDELOCK_ETCD").unwrap_or_else(|| "etcd".into()));
    if cfg!(target_arch = "aarch64") {
        command.env("ETCD_UNSUPPORTED_ARCH", "arm64"); // otherwise 3.4 refuses to run there
    }
    command
}

fn free() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Where that etcd has its data.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()))
}
