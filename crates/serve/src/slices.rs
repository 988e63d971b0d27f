//! Slices as a debugger's user names them: by number, with numbered statements and edges.

use std::collections::BTreeMap;
use std::fmt::Write;

use case::{About, Dependence, Instance, Point, Session, SliceReport, SliceRequest, Window};

/// The slices that were made and not deleted.
#[derive(Default)]
pub(crate) struct Slices {
    list: BTreeMap<u32, Slice>,
    last: u32,
    /// Only what is executed between these places belongs to slices made from now on.
    window: (Option<u64>, Option<u64>),
}

struct Slice {
    request: SliceRequest,
    report: SliceReport,
    timeline: u32,
    /// The steps of statements at which the guest is to stop.
    breaks: Vec<u64>,
    /// Found when somebody steps along the slice.
    instances: Option<Vec<Instance>>,
}

fn place(i: &Instance) -> String {
    let at = match (&i.place.file, i.place.line) {
        (Some(file), Some(line)) => {
            let name = file.file_name().unwrap_or(file.as_os_str());
            format!("{}:{line}", name.to_string_lossy())
        }
        _ => i.place.code.clone().unwrap_or_else(|| "?".to_owned()),
    };
    match i.nth {
        0 => at,
        n => format!("{at}#{n}"),
    }
}

fn why(e: &Dependence) -> String {
    let times = match e.times {
        1 => String::new(),
        n => format!(" ({n} times)"),
    };
    match e.what.is_empty() {
        true => format!("{}{times}", e.kind),
        false => format!("{} {}{times}", e.kind, e.what),
    }
}

/// `[STMT [N]] [VARIABLE | ADDR [SIZE] | $REG]`.
pub(crate) fn parse(text: &str) -> Result<SliceRequest, String> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let mut request = SliceRequest::default();
    let is_number = |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_digit());
    let is_line = |w: &str| {
        let parts = w.split('#').next().and_then(|w| w.rsplit_once(':'));
        parts.is_some_and(|(_, line)| is_number(line))
    };
    if words.first().is_some_and(|w| is_line(w) || *w == "crash") {
        let mut at = words.remove(0).to_owned();
        if words.first().is_some_and(|w| is_number(w)) && !at.contains('#') {
            at = format!("{at}#{}", words.remove(0));
        }
        request.at = Some(Point::parse(&at)?);
    }
    let number = |w: &str| match w.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => w.parse().ok(),
    };
    request.about = match words[..] {
        [] => About::Everything,
        [w] if w.starts_with('$') => About::Register(w[1..].to_owned()),
        [w, ref more @ ..] if w.starts_with("0x") && more.len() < 2 => {
            let size = more.first().map_or(Some(1), |w| number(w));
            match (number(w), size) {
                (Some(addr), Some(len)) => About::Memory { addr, len },
                _ => return Err(format!("`{text}` has no address and size")),
            }
        }
        _ => About::Variable(words.join(" ")),
    };
    Ok(request)
}

fn numbers(text: &str) -> Result<Vec<usize>, String> {
    let parts = text.split([',', ' ']).filter(|p| !p.is_empty());
    parts
        .map(|p| {
            p.parse()
                .map_err(|_| format!("`{p}` is not the number of a statement"))
        })
        .collect()
}

impl Slices {
    pub(crate) fn make(&mut self, s: &mut Session, text: &str) -> Result<String, String> {
        let mut words = text.split_whitespace();
        if let (Some(id), Some("tree"), None) = (words.next(), words.next(), words.next()) {
            return self.tree(id);
        }
        if let Ok(id) = text.trim().parse::<u32>() {
            return Ok(self.list(id, self.get(&id.to_string())?));
        }
        let mut request = parse(text)?;
        if request.at.is_none() {
            request.at = Some(Point::Step(s.step().map_err(|e| e.to_string())?));
        }
        if let (Some(from), to) = self.window {
            request.window = Some(Window {
                from: Some(Point::Step(from)),
                to: to.map(Point::Step),
            });
        }
        let report = s.slice(&request).map_err(|e| e.to_string())?;
        self.last += 1;
        let slice = Slice {
            request,
            report,
            timeline: s.on_timeline(),
            breaks: Vec::new(),
            instances: None,
        };
        let said = self.list(self.last, &slice);
        self.list.insert(self.last, slice);
        Ok(said)
    }

    fn get(&self, id: &str) -> Result<&Slice, String> {
        let found = id.trim().parse().ok().and_then(|n: u32| self.list.get(&n));
        found.ok_or_else(|| format!("there is no slice `{id}`"))
    }

    fn head(&self, id: u32, slice: &Slice) -> String {
        let r = &slice.report;
        let on = match slice.timeline {
            0 => String::new(),
            n => format!(", timeline {n}"),
        };
        format!(
            "slice {id}: {} statements, {} instructions, {} dependences; from {} (step {}{on}), {}",
            r.statements.len(),
            r.figures.instructions,
            r.figures.dependences,
            place(&r.at),
            r.at.step,
            r.about.join(", ")
        )
    }

    fn list(&self, id: u32, slice: &Slice) -> String {
        let mut out = self.head(id, slice);
        for (n, s) in slice.report.statements.iter().enumerate() {
            let i = Instance {
                place: s.place.clone(),
                nth: 0,
                step: 0,
            };
            let text = s.text.as_deref().unwrap_or("");
            let _ = write!(out, "\n{:>4}  {}  {text}", n + 1, place(&i));
        }
        out
    }

    fn edges(slice: &Slice) -> impl Iterator<Item = (usize, &Dependence)> {
        let statements = slice.report.statements.iter().enumerate();
        statements.flat_map(|(n, s)| s.edges.iter().map(move |e| (n, e)))
    }

    fn tree(&self, id: &str) -> Result<String, String> {
        let slice = self.get(id)?;
        let number: u32 = id.parse().unwrap_or(0);
        let mut out = self.head(number, slice);
        let mut edge = 0;
        for (n, s) in slice.report.statements.iter().enumerate() {
            let i = Instance {
                place: s.place.clone(),
                nth: 0,
                step: 0,
            };
            let text = s.text.as_deref().unwrap_or("");
            let _ = write!(out, "\n{:>4}  {}  {text}", n + 1, place(&i));
            for e in &s.edges {
                edge += 1;
                let from = match e.nth {
                    0 => String::new(),
                    n => format!("#{n} "),
                };
                let _ = write!(
                    out,
                    "\n        e{edge}  {from}-> {} (step {}) because of {}",
                    place(&e.to),
                    e.to.step,
                    why(e)
                );
            }
        }
        Ok(out)
    }

    /// `EDGE` of the latest slice, or `ID EDGE`: the step at the other end, and what is there.
    pub(crate) fn follow(&self, s: &mut Session, text: &str) -> Result<String, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (id, edge) = match words[..] {
            [edge] => (self.last.to_string(), edge),
            [id, edge] => (id.to_owned(), edge),
            _ => return Err("write EDGE or SLICE EDGE; `slice ID tree` has the edges".to_owned()),
        };
        let slice = self.get(&id)?;
        self.same_timeline(s, slice)?;
        let n: usize = edge
            .trim_start_matches('e')
            .parse()
            .map_err(|_| format!("`{edge}` is not an edge"))?;
        let found = n.checked_sub(1).and_then(|n| Self::edges(slice).nth(n));
        let (_, e) = found.ok_or_else(|| format!("slice {id} has no edge {n}"))?;
        s.goto(e.to.step).map_err(|e| e.to_string())?;
        Ok(format!("{}, because of {}", place(&e.to), why(e)))
    }

    fn same_timeline(&self, s: &Session, slice: &Slice) -> Result<(), String> {
        if slice.timeline != s.on_timeline() {
            return Err(format!(
                "this slice is of timeline {}: what was executed there is not what is executed here (`timeline {0}` goes there)",
                slice.timeline
            ));
        }
        Ok(())
    }

    /// `ID LIST`: leaves out what comes through these variables or registers.
    pub(crate) fn prune(&mut self, s: &mut Session, text: &str) -> Result<String, String> {
        let (id, list) = text
            .split_once(' ')
            .ok_or("write the number of a slice, then variables or registers")?;
        let slice = self.get(id)?;
        self.same_timeline(s, slice)?;
        let mut request = slice.request.clone();
        let names = list.split([',', ' ']).filter(|n| !n.is_empty());
        let names = names.map(|n| n.trim_start_matches('$').to_owned());
        request.prune.extend(names);
        let before = slice.report.figures.dependences;
        let report = s.slice(&request).map_err(|e| e.to_string())?;
        let after = report.figures.dependences;
        let number: u32 = id.parse().unwrap_or(0);
        let Some(slice) = self.list.get_mut(&number) else {
            return Ok(String::new());
        };
        (slice.request, slice.report, slice.instances) = (request, report, None);
        let said = self.list(number, &self.list[&number]);
        Ok(format!("{before} dependences before, {after} now\n{said}"))
    }

    /// `ID S1[,S2...]` or `all ID`.
    pub(crate) fn breaks(&mut self, s: &mut Session, text: &str) -> Result<String, String> {
        let (id, list) = text.split_once(' ').unwrap_or((text, ""));
        let (id, list) = match id {
            "all" => (list.trim(), None),
            id => (id, Some(numbers(list)?)),
        };
        let slice = self.get(id)?;
        self.same_timeline(s, slice)?;
        let all = slice.report.statements.clone();
        let list = list.unwrap_or_else(|| (1..=all.len()).collect());
        if list.is_empty() {
            return Err("write the number of a slice and those of statements in it".to_owned());
        }
        let mut wanted = Vec::new();
        for n in list {
            let statement = n.checked_sub(1).and_then(|n| all.get(n));
            let statement = statement.ok_or_else(|| format!("slice {id} has no statement {n}"))?;
            wanted.push(&statement.place);
        }
        let instances = self.instances(s, id)?.iter();
        let chosen = instances.filter(|i| wanted.contains(&&i.place) && i.step > 0);
        let steps: Vec<u64> = chosen.map(|i| i.step).collect();
        let n = steps.len();
        s.marks.extend(&steps);
        let number: u32 = id.parse().unwrap_or(0);
        if let Some(slice) = self.list.get_mut(&number) {
            slice.breaks.extend(steps);
        }
        Ok(format!("the guest stops at {n} instances"))
    }

    /// To the next or previous statement instance of the latest slice, or of one that is named.
    pub(crate) fn along(
        &mut self,
        s: &mut Session,
        text: &str,
        forward: bool,
    ) -> Result<String, String> {
        let id = match text.trim() {
            "" => self.last.to_string(),
            id => id.to_owned(),
        };
        self.same_timeline(s, self.get(&id)?)?;
        let here = s.step().map_err(|e| e.to_string())?;
        let mut all = self.instances(s, &id)?.iter().filter(|i| i.step > 0);
        let found = match forward {
            true => all.find(|i| i.step > here),
            false => all.rfind(|i| i.step < here),
        };
        let Some(i) = found else {
            return Err(match forward {
                true => format!("slice {id} has nothing behind step {here}"),
                false => format!("slice {id} has nothing before step {here}"),
            });
        };
        s.goto(i.step).map_err(|e| e.to_string())?;
        Ok(format!("{} (step {})", place(i), i.step))
    }

    /// The executions of statements that are in a slice.
    fn instances(&mut self, s: &mut Session, id: &str) -> Result<&[Instance], String> {
        let missing = || format!("there is no slice `{id}`");
        let number: u32 = id.trim().parse().map_err(|_| missing())?;
        let slice = self.list.get_mut(&number).ok_or_else(missing)?;
        if slice.instances.is_none() {
            let list = s.slice_instances(&slice.request);
            let list = list.map_err(|e| e.to_string())?;
            slice.instances = Some(list);
        }
        Ok(slice.instances.as_deref().unwrap_or_default())
    }

    pub(crate) fn delete(&mut self, s: &mut Session, id: &str) -> Result<String, String> {
        self.get(id)?;
        let number: u32 = id.trim().parse().unwrap_or(0);
        if let Some(slice) = self.list.remove(&number) {
            for step in slice.breaks {
                s.marks.remove(&step);
            }
        }
        Ok(String::new())
    }

    pub(crate) fn all(&self, s: &Session) -> String {
        if self.list.is_empty() {
            return "no slices".to_owned();
        }
        let here = s.step().unwrap_or(u64::MAX);
        let lines = self.list.iter().map(|(id, slice)| {
            let mut line = self.head(*id, slice);
            if !slice.request.prune.is_empty() {
                let _ = write!(line, "; without {}", slice.request.prune.join(", "));
            }
            if slice.timeline != s.on_timeline() {
                line.push_str("; of another timeline than the present one");
            } else if slice.report.at.step > here {
                line.push_str("; it reaches past where the guest stands");
            }
            line
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// `FILE:LINE on|off`: slices are made of what is executed in between.
    pub(crate) fn record(&mut self, s: &mut Session, text: &str) -> Result<String, String> {
        let form = "write FILE:LINE on, or FILE:LINE off; `record off` for all of the run";
        let words: Vec<&str> = text.split_whitespace().collect();
        let (place, on) = match words[..] {
            ["off"] => {
                self.window = (None, None);
                return Ok("slices are made of the whole run".to_owned());
            }
            [place, "on"] => (place, true),
            [place, "off"] => (place, false),
            _ => return Err(form.to_owned()),
        };
        let point = Point::parse(place)?;
        let from = match on {
            true => 0,
            false => self.window.0.map_or(0, |w| w + 1),
        };
        let step = s.first_time(&point, from).map_err(|e| e.to_string())?;
        let step = step.ok_or_else(|| format!("{place} is not executed there"))?;
        match on {
            true => self.window = (Some(step), None),
            false => self.window = (Some(self.window.0.unwrap_or(0)), Some(step)),
        }
        let to = match self.window.1 {
            Some(step) => format!("to step {step}"),
            None => "to the end".to_owned(),
        };
        let from = self.window.0.unwrap_or(0);
        Ok(format!(
            "slices are made of what runs from step {from} {to}"
        ))
    }
}
