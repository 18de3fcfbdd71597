//! The command that starts a shop.

use std::{
    env,
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, Stdio},
};

/// A program that serves as a shop: it prints one line of JSON with its address when it is ready, and ends when its
/// stdin does.
#[derive(Clone)]
pub struct ShopCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments, the same for all shops.
    pub arguments: Vec<OsString>,
    /// Variables that other users must not read in a list of processes, such as addresses with passwords.
    pub secrets: Vec<(String, String)>,
}

impl ShopCommand {
    /// This program itself, with these arguments.
    ///
    /// # Errors
    /// That of the system when it does not say where this program is.
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
        // Ctrl-C on a terminal goes to a whole group. This process alone takes it, and ends the shops in order.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }
}

impl std::fmt::Debug for ShopCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShopCommand").field("program", &self.program).finish_non_exhaustive()
    }
}
