//! The settings of `serve`, from the environment.

use std::{env, error::Error, net::SocketAddr, str::FromStr, time::Duration};

/// The settings of one shop.
#[derive(Debug)]
pub(crate) struct Settings {
    /// `SHOP_LISTEN`: the address for customers.
    pub(crate) listen: SocketAddr,
    /// `SHOP_CONSOLE`: the address for operators.
    pub(crate) console: SocketAddr,
    /// `SHOP_DATABASE`: the shop's database.
    pub(crate) database: String,
    /// `SHOP_PAYMENTS`: the provider's database.
    pub(crate) payments: String,
    /// `SHOP_LOCKS`: the store of the locks and jobs: `memory:`, `sqlite:path`, `postgres://…?migrate=true`, or a Redis.
    pub(crate) locks: String,
    /// `SHOP_PREFIX`: separates this application's locks and jobs from those of others in the same store. Choose your
    /// own.
    pub(crate) prefix: String,
    /// `SHOP_NAME`: the name of this shop in the console.
    pub(crate) name: String,
    /// `SHOP_LEASE_MS`: the time after which the locks of a shop that died are free.
    pub(crate) lease: Duration,
    /// `SHOP_PAYMENT_DELAY_MS`: the time that the provider takes to answer.
    pub(crate) payment_delay: Duration,
    /// `SHOP_SETTLE_AFTER_S`: the age at which a job settles an intent.
    pub(crate) settle_after: Duration,
    /// `SHOP_NAIVE=1`: sells without a lock.
    pub(crate) naive: bool,
}

/// The error for a setting that cannot be used. It does not contain the value, which may be a password.
#[derive(Debug, thiserror::Error)]
#[error("the environment variable {name} cannot be used")]
pub(crate) struct SettingError {
    name: &'static str,
    source: Box<dyn Error + Send + Sync>,
}

impl Settings {
    /// Reads the settings.
    pub(crate) fn from_env() -> Result<Self, SettingError> {
        // A shop without a lock writes orders that the right shop cannot explain, so it has files of its own.
        let naive = read::<u8>("SHOP_NAIVE", "0")? == 1;
        let [shop, payments] = match naive {
            false => ["sqlite://shop.sqlite", "sqlite://payments.sqlite"],
            true => ["sqlite://naive-shop.sqlite", "sqlite://naive-payments.sqlite"],
        };
        Ok(Self {
            listen: read("SHOP_LISTEN", "127.0.0.1:8080")?,
            console: read("SHOP_CONSOLE", "127.0.0.1:8081")?,
            database: read("SHOP_DATABASE", shop)?,
            payments: read("SHOP_PAYMENTS", payments)?,
            locks: read("SHOP_LOCKS", "memory:")?,
            prefix: read("SHOP_PREFIX", "shop")?,
            name: read("SHOP_NAME", "shop-1")?,
            lease: Duration::from_millis(read("SHOP_LEASE_MS", "10000")?),
            payment_delay: Duration::from_millis(read("SHOP_PAYMENT_DELAY_MS", "3")?),
            settle_after: Duration::from_secs(read("SHOP_SETTLE_AFTER_S", "60")?),
            naive,
        })
    }
}

fn read<T: FromStr>(name: &'static str, default: &str) -> Result<T, SettingError>
where
    T::Err: Into<Box<dyn Error + Send + Sync>>,
{
    let value = match env::var(name) {
        Err(env::VarError::NotPresent) => default.to_owned(),
        Err(error) => return Err(SettingError { name, source: error.into() }),
        Ok(value) => value,
    };
    value.parse().map_err(|error: T::Err| SettingError { name, source: error.into() })
}
