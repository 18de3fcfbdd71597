//! Checks of the appearance of a page: contrast, width, layout shifts.

use crate::{Browser, BrowserError};
use serde_json::Value;

/// The contrast that WCAG 2.2 (1.4.3, level AA) requires of text, against the nearest background that is not
/// transparent.
const LOW_CONTRAST: &str = "
    const luminance = colour => { const [r, g, b] = colour.match(/[0-9.]+/g).map(value => { value /= 255;
        return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const behind = node => { const colour = node ? getComputedStyle(node).backgroundColor : 'rgb(255, 255, 255)';
        return colour === 'rgba(0, 0, 0, 0)' ? behind(node.parentElement) : colour; };
    return Array.from(document.querySelectorAll('body *'))
        .filter(node => node.checkVisibility() && node.childElementCount === 0 && node.textContent.trim())
        .filter(node => node.ariaDisabled !== 'true' && !node.closest('.unseen'))
        .map(node => { const [a, b] = [luminance(getComputedStyle(node).color), luminance(behind(node))].sort((a, b) => b - a);
            return [(a + 0.05) / (b + 0.05), node.textContent]; })
        .filter(([ratio]) => ratio < 4.5).map(([ratio, text]) => ratio.toFixed(2) + ' ' + text)";

/// Elements that are only for screen readers have the class `unseen`. A phone zooms out of a page that is too wide,
/// which raises `innerWidth`; `clientWidth` stays that of the screen.
const OFF_SCREEN: &str = "
    const width = document.documentElement.clientWidth;
    const outside = Array.from(document.querySelectorAll('body *'))
        .filter(node => node.checkVisibility() && !node.closest('.unseen')
            && node.getBoundingClientRect().right > width + 0.5)
        .map(node => node.outerHTML.slice(0, 80));
    const content = document.documentElement.scrollWidth;
    return content > width ? [...outside, content + ' px of content'] : outside";

const LAYOUT_SHIFTS: &str = "
    return new Promise(done => new PerformanceObserver(list => done(list.getEntries().map(entry =>
        Math.round(entry.startTime) + ' ms: ' + entry.value + ' by '
            + entry.sources.map(source => source.node?.id || source.node?.nodeName).join(', '))))
        .observe({ type: 'layout-shift', buffered: true }) || setTimeout(() => done([]), 500))";

impl Browser {
    /// Lists the visible texts whose contrast is below 4.5, with their contrast. Omits disabled controls.
    ///
    /// # Errors
    /// [`BrowserError`] if the page cannot be examined.
    pub async fn low_contrast(&self) -> Result<Vec<String>, BrowserError> {
        self.run(LOW_CONTRAST).await.map(texts)
    }

    /// Lists the visible elements that reach beyond the right edge of the window, and the width of the page if it is wider.
    ///
    /// # Errors
    /// [`BrowserError`] if the page cannot be examined.
    pub async fn off_screen(&self) -> Result<Vec<String>, BrowserError> {
        self.run(OFF_SCREEN).await.map(texts)
    }

    /// Lists the layout shifts since the page was opened that were not caused by input.
    ///
    /// # Errors
    /// [`BrowserError`] if the page cannot be examined.
    pub async fn layout_shifts(&self) -> Result<Vec<String>, BrowserError> {
        self.run(LAYOUT_SHIFTS).await.map(texts)
    }
}

fn texts(list: Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
