//! What is wrong with a rule file, and how that is shown.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::syntax::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
}

/// One complaint about a place in a file.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    pub severity: Severity,
    pub span: Span,
    pub message: String,
    pub help: Option<String>,
}

impl Diagnostic {
    pub(crate) fn error(span: Span, message: String) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            span,
            message,
            help: None,
        }
    }

    pub(crate) fn warning(span: Span, message: String) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::error(span, message)
        }
    }

    pub(crate) fn help(mut self, text: &str) -> Diagnostic {
        self.help = Some(text.to_owned());
        self
    }

    /// The complaint with the source line under it, without colours.
    pub fn render(&self, file: &str, text: &str) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let end = self.span.end.min(text.len());
        let start = self.span.start.min(end);
        let snippet = Snippet::source(text)
            .line_start(1)
            .path(file)
            .annotation(AnnotationKind::Primary.span(start..end));
        let title = level.primary_title(self.message.as_str());
        let mut report = vec![title.element(snippet)];
        if let Some(help) = &self.help {
            report.push(Group::with_title(
                Level::HELP.secondary_title(help.as_str()),
            ));
        }
        let mut out = Renderer::plain().render(&report).to_string();
        out.push('\n');
        out
    }
}

/// The name that was probably meant.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let far = (name.len() / 3).max(1) + 1;
    known
        .into_iter()
        .map(|k| (distance(&name.to_lowercase(), &k.to_lowercase()), k))
        .filter(|(d, _)| *d < far)
        .min()
        .map(|(_, k)| k)
}

/// How many letters must be changed to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
