//! The page's actions, and the channel to the task that executes them.

use tokio::sync::{mpsc, oneshot};

/// An action requested by the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Switches every server to this strategy.
    Strategy(String),
    /// Starts the load generator.
    StartLoad,
    /// Stops the load generator.
    StopLoad,
    /// Executes an action on one server.
    Server(String, ServerAction),
}

/// An action on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerAction {
    /// Stops its process with SIGSTOP.
    Pause,
    /// Ends its process with SIGKILL.
    Kill,
    /// Resumes a paused process, or starts a new one for a dead server.
    Revive,
}

/// An error that prevented an action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ActionError {
    /// No server has this name.
    #[error("unknown server {0}: reload the page")]
    NoSuchServer(String),
    /// The page does not offer a strategy with this name.
    #[error("{0}")]
    Strategy(String),
    /// The server's current state does not allow the action, or the server did not start.
    #[error("{0}")]
    Server(String),
    /// The dashboard is shutting down.
    #[error("the dashboard is shutting down: restart it, then repeat the action")]
    Closed,
}

/// An action to execute, with a channel for its result.
#[derive(Debug)]
pub struct Request {
    /// The action.
    pub action: Action,
    /// Channel for the result.
    pub reply: oneshot::Sender<Result<(), ActionError>>,
}

/// A sender of actions to the task that executes them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Actions(mpsc::Sender<Request>);

impl Actions {
    /// Creates the sender, and the receiver for the task.
    #[must_use]
    pub fn channel() -> (Self, mpsc::Receiver<Request>) {
        let (sender, receiver) = mpsc::channel(16);
        (Self(sender), receiver)
    }

    /// Requests `action` and waits for its result.
    ///
    /// # Errors
    /// Returns [`ActionError`] if the action was not executed.
    ///
    /// # Cancel safety
    /// Dropping this does not cancel an action that was already sent.
    pub async fn take(&self, action: Action) -> Result<(), ActionError> {
        let (reply, result) = oneshot::channel();
        self.0.send(Request { action, reply }).await.map_err(|_| ActionError::Closed)?;
        result.await.unwrap_or(Err(ActionError::Closed))
    }
}
