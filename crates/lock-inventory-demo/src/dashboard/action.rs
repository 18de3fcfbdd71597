//! The actions of the page, and their way to the task that carries them out.

use tokio::sync::{mpsc, oneshot};

/// One action of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Sells by this strategy from now on, on every server.
    Strategy(String),
    /// Starts the load generator.
    StartLoad,
    /// Stops the load generator.
    StopLoad,
    /// Does something to one server.
    Server(String, ServerAction),
}

/// An action on one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerAction {
    /// Stops its process with SIGSTOP.
    Pause,
    /// Ends its process with SIGKILL.
    Kill,
    /// Continues a paused process, starts a new one for a dead server.
    Revive,
}

/// The reason for an action that was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ActionError {
    /// There is no server of this name.
    #[error("there is no server {0}: reload the page")]
    NoSuchServer(String),
    /// There is no strategy of this name, or not with this database.
    #[error("{0}")]
    Strategy(String),
    /// The server cannot do this in its present state.
    #[error("{0}")]
    Server(String),
    /// The dashboard is shutting down.
    #[error("the dashboard is shutting down: start it again")]
    Closed,
}

/// An action on its way.
#[derive(Debug)]
pub struct Request {
    /// The action.
    pub action: Action,
    /// Takes the result.
    pub reply: oneshot::Sender<Result<(), ActionError>>,
}

/// Sends actions to the task that carries them out. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Actions(mpsc::Sender<Request>);

impl Actions {
    /// Creates the sender, and the receiver for the task that carries them out.
    #[must_use]
    pub fn channel() -> (Self, mpsc::Receiver<Request>) {
        let (sender, receiver) = mpsc::channel(16);
        (Self(sender), receiver)
    }

    /// Has `action` carried out, and waits for its result.
    ///
    /// # Errors
    /// [`ActionError`] if it was not carried out.
    ///
    /// # Cancel safety
    /// Dropping this does not take back an action that is on its way.
    pub async fn take(&self, action: Action) -> Result<(), ActionError> {
        let (reply, result) = oneshot::channel();
        self.0.send(Request { action, reply }).await.map_err(|_| ActionError::Closed)?;
        result.await.unwrap_or(Err(ActionError::Closed))
    }
}
