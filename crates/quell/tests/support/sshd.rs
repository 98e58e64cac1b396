//! An sshd with keys of the test's own: Debian's openssh-server, unpacked and not installed.
//!
//! ```text
//!   FOLDER/key, host, stranger      keys made on the spot
//!   FOLDER/bin-ssh/ssh              ssh with the key that the server knows; bin-ssh-stranger's is another
//!   sh FOLDER/NAME.sh               the server, in the foreground; wants a mount namespace of its own
//! ```

use super::left_out;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where it listens.
pub const PORT: u16 = 2222;

/// What ssh is told; `KEYS` is the folder.
const SSH: &str =
    "Host *\n  IdentityFile KEYS/IDENTITY\n  IdentitiesOnly yes\n  UserKnownHostsFile KEYS/known\n";

/// What sshd is told, and how it begins: with the user and the folder that it wants for its unprivileged part.
const SSHD: &str = "Port 2222\nHostKey KEYS/host\nPidFile none\nAuthorizedKeysFile KEYS/key.pub\nStrictModes no\nUsePAM no\n\
     PermitRootLogin yes\nPasswordAuthentication yes\nSetEnv ENVIRONMENT\n";
const BEGIN: &str = "mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && \
     { grep -v ^sshd: /etc/passwd; echo sshd:x:64999:65534::/run/sshd:/usr/sbin/nologin; } >/run/passwd && \
     mount --bind /run/passwd /etc/passwd && \
     LD_LIBRARY_PATH=LIBRARIES exec UNPACKED/usr/sbin/sshd -D -e -f CONFIG\n";

/// Keys and programs of a test.
pub struct Ssh {
    folder: PathBuf,
    unpacked: PathBuf,
}

impl Ssh {
    /// In a folder of the test's; none where no sshd can be started here, which is said.
    pub fn new(folder: &Path) -> Option<Self> {
        let unpacked = Path::new(env!("CARGO_BIN_EXE_quell")).ancestors().nth(2);
        let unpacked = unpacked.expect("it lies in target/debug").join("unpacked");
        if !unpacked.join("usr/sbin/sshd").exists() {
            left_out::for_want_of("openssh-server, below target/unpacked (make test)");
            return None;
        }
        if !Path::new("/usr/bin/ssh").exists() {
            left_out::for_want_of("ssh (openssh-client)");
            return None;
        }
        for key in ["host", "key", "stranger"] {
            let mut made = Command::new("ssh-keygen");
            made.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(key));
            assert!(made.status().expect("OpenSSH's client is there").success());
        }
        let keys = folder.display().to_string();
        let host = std::fs::read_to_string(folder.join("host.pub")).unwrap();
        std::fs::write(folder.join("known"), format!("* {host}")).unwrap();
        for (name, identity) in [("ssh", "key"), ("ssh-stranger", "stranger")] {
            let config = SSH.replace("KEYS", &keys).replace("IDENTITY", identity);
            std::fs::write(folder.join(format!("{name}.conf")), config).unwrap();
            std::fs::create_dir(folder.join(format!("bin-{name}"))).unwrap();
            let program = folder.join(format!("bin-{name}/ssh"));
            let text = format!("#!/bin/sh\nexec /usr/bin/ssh -F {keys}/{name}.conf \"$@\"\n");
            std::fs::write(&program, text).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        }
        Some(Ssh { folder: folder.to_owned(), unpacked })
    }

    /// A `PATH` with the ssh of this name.
    pub fn path(&self, ssh: &str) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        format!("{}/bin-{ssh}:{path}", self.folder.display())
    }

    /// A script for `sh` that is the server; sessions have `environment`, as `A=1 B=2`.
    pub fn server(&self, name: &str, environment: &str) -> PathBuf {
        let config = self.folder.join(format!("{name}.conf"));
        let keys = self.folder.display().to_string();
        let told = SSHD.replace("KEYS", &keys).replace("ENVIRONMENT", environment);
        std::fs::write(&config, told).unwrap();
        let arch = format!("{}-linux-gnu", std::env::consts::ARCH);
        let libraries =
            ["usr/lib", "lib"].map(|l| self.unpacked.join(l).join(&arch).display().to_string());
        let script = BEGIN.replace("LIBRARIES", &libraries.join(":"));
        let script = script.replace("UNPACKED", &self.unpacked.display().to_string());
        let script = script.replace("CONFIG", &config.display().to_string());
        let place = self.folder.join(format!("{name}.sh"));
        std::fs::write(&place, script).unwrap();
        place
    }
}
