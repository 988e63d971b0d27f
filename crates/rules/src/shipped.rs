//! The rule files that come with the tool.

/// A file of rules inside of the program.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    pub name: &'static str,
    pub text: &'static str,
    /// Used unless others are asked for.
    pub usual: bool,
}

macro_rules! shipped {
    ($name:literal, $usual:literal) => {
        Shipped {
            name: concat!($name, ".rules"),
            text: include_str!(concat!("../rules/", $name, ".rules")),
            usual: $usual,
        }
    };
}

pub const SHIPPED: [Shipped; 10] = [
    shipped!("free", true),
    shipped!("deref", true),
    shipped!("variables", true),
    shipped!("overlap", true),
    shipped!("uninitialised", true),
    shipped!("leaks", true),
    shipped!("possible", false),
    shipped!("transaction", false),
    shipped!("collector", false),
    shipped!("descriptors", false),
];
