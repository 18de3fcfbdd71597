//! HTML helpers: escaping, tables and figures.

use std::fmt::Write;

/// Escapes `text` for use in elements and attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// An HTML table.
pub(super) struct Table {
    html: String,
}

impl Table {
    /// Begins a table. Each head consists of a text and a class, `n` for numbers.
    pub(super) fn new(heads: &[(&str, &str)]) -> Self {
        let mut html = String::from("<div class=\"scroll\"><table><thead><tr>");
        for (head, class) in heads {
            let _ = write!(html, "<th scope=\"col\" class=\"{class}\">{}</th>", escape(head));
        }
        html.push_str("</tr></thead><tbody>");
        Self { html }
    }

    /// Adds a row. Each cell consists of a text and a class.
    pub(super) fn row(&mut self, cells: &[(&str, &str)]) {
        self.html.push_str("<tr>");
        for (text, class) in cells {
            let _ = write!(self.html, "<td class=\"{class}\">{}</td>", escape(text));
        }
        self.html.push_str("</tr>");
    }

    pub(super) fn end(mut self) -> String {
        self.html.push_str("</tbody></table></div>");
        self.html
    }
}

/// Returns a chart with its caption and its legend. An empty legend is omitted.
pub(super) fn figure(svg: &str, caption: &str, legend: &[(&str, &str)]) -> String {
    let mut html = format!("<figure>{svg}");
    if !legend.is_empty() {
        html.push_str("<ul class=\"legend\">");
        for (class, name) in legend {
            let _ = write!(html, "<li><i class=\"{class}\"></i>{}</li>", escape(name));
        }
        html.push_str("</ul>");
    }
    let _ = write!(html, "<figcaption>{}</figcaption></figure>", escape(caption));
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_is_escaped() {
        assert_eq!(escape(r#"<a href="x">&"#), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
