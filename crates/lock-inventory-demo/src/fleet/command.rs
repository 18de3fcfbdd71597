//! The command that starts a shop.

use std::{
    env,
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, Stdio},
};

/// The command that starts a shop. The program prints one line of JSON with its address when it is
/// ready, and exits when its stdin ends.
#[derive(Clone)]
pub struct ShopCommand {
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments, the same for all shops.
    pub arguments: Vec<OsString>,
    /// Environment variables with values that other users must not see in process lists, such as addresses with
    /// passwords.
    pub secrets: Vec<(String, String)>,
}

impl ShopCommand {
    /// Returns a command that runs this program with `arguments`.
    ///
    /// # Errors
    /// Returns an error if the path of this program's executable is unknown.
    pub fn this_program(arguments: impl IntoIterator<Item = OsString>) -> io::Result<Self> {
        Ok(Self {
            program: env::current_exe()?,
            arguments: arguments.into_iter().collect(),
            secrets: Vec::new(),
        })
    }

    pub(super) fn build(&self, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg("--shop").arg(name);
        command.envs(self.secrets.iter().map(|(name, value)| (name, value)));
        // Ctrl-C on a terminal is sent to the whole process group. In a separate group, the shops
        // do not receive it, and this process can shut them down gracefully.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }
}

impl std::fmt::Debug for ShopCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShopCommand").field("program", &self.program).finish_non_exhaustive()
    }
}
