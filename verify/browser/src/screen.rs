//! The screen: its size and its colour scheme.

use serde_json::{Value, json};

/// The size of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Width in CSS pixels.
    pub width: u32,
    /// Height in CSS pixels.
    pub height: u32,
    /// The kind of device.
    pub device: Device,
}

/// The kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// One device pixel per CSS pixel.
    Desktop,
    /// Two device pixels per CSS pixel, and the page's viewport setting is honoured.
    Phone,
}

impl Screen {
    /// A laptop.
    pub const LAPTOP: Self = Self { width: 1280, height: 860, device: Device::Desktop };
    /// A small phone.
    pub const PHONE: Self = Self { width: 360, height: 780, device: Device::Phone };

    pub(crate) fn metrics(self) -> Value {
        let phone = self.device == Device::Phone;
        json!({
            "width": self.width,
            "height": self.height,
            "deviceScaleFactor": if phone { 2 } else { 1 },
            "mobile": phone,
        })
    }
}

/// The preferred colour scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorScheme {
    /// Dark text on a light page.
    Light,
    /// Light text on a dark page.
    Dark,
}

impl ColorScheme {
    pub(crate) fn value(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}
