//! Parsing of PyTorch's operator schemas, and which variant of its base operator an overload is.

use crate::error::{Error, Result};

/// What an argument holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgType {
    Tensor,
    Scalar,
    Generator,
    /// Integers, floats, bools, strings, dtypes, layouts, devices, memory formats.
    Other,
}

#[derive(Clone, Debug)]
pub struct Argument {
    pub name: String,
    pub ty: ArgType,
    pub list: bool,
    /// Annotated `(a!)`.
    pub write: bool,
    pub keyword_only: bool,
}

/// A parsed schema: `aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)`.
#[derive(Clone, Debug)]
pub struct Schema {
    /// Without the namespace: `add`.
    pub name: String,
    /// `out`; empty for the default overload.
    pub overload: String,
    pub arguments: Vec<Argument>,
    /// One entry per result: whether it is a tensor list, and whether it aliases a written argument.
    pub returns: Vec<Return>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    pub list: bool,
    pub alias: bool,
}

/// How an overload relates to its base's functional form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variant {
    Functional,
    /// Writes its first argument.
    InPlace,
    /// Writes its keyword-only `out` arguments.
    Out,
    /// Writes the arguments that the entry names in `writes`.
    Irregular,
}

impl Schema {
    pub fn parse(text: &str) -> Result<Schema> {
        let malformed = || Error::runtime(format!("cannot parse the operator schema {text:?}"));
        let open = text.find('(').ok_or_else(malformed)?;
        let (head, rest) = text.split_at(open);
        let close = matching_parenthesis(rest).ok_or_else(malformed)?;
        let (arguments, results) = (&rest[1..close], &rest[close + 1..]);
        let head = head.rsplit("::").next().unwrap_or(head);
        let (name, overload) = head.split_once('.').unwrap_or((head, ""));

        let mut keyword_only = false;
        let mut parsed = Vec::new();
        for item in split_top(arguments) {
            if item == "*" {
                keyword_only = true;
                continue;
            }
            let declaration = item.split('=').next().unwrap_or(item).trim();
            let (ty, name) = declaration.rsplit_once(' ').ok_or_else(malformed)?;
            parsed.push(argument(ty, name, keyword_only));
        }
        let results = results.trim().trim_start_matches("->").trim();
        let results = results
            .strip_prefix('(')
            .and_then(|inner| inner.strip_suffix(')'))
            .unwrap_or(results);
        let returns = split_top(results)
            .into_iter()
            .map(|item| Return {
                list: item.contains("[]"),
                alias: item.contains('!'),
            })
            .collect();
        Ok(Schema {
            name: name.into(),
            overload: overload.into(),
            arguments: parsed,
            returns,
        })
    }

    pub fn is_foreach(&self) -> bool {
        self.name.starts_with("_foreach_")
    }

    /// Base names under which an entry may stand, best first: as written (`_fused_adam_`, which has no functional form of its own),
    /// without the in-place underscore, and for a foreach overload the operator that it maps over its lists.
    pub fn base_names(&self) -> Vec<String> {
        let writes_first = self.arguments.first().is_some_and(|first| first.write);
        if let Some(rest) = self.name.strip_prefix("__") {
            // `__ilshift__` is the in-place form of `__lshift__`.
            return match rest.strip_prefix('i') {
                Some(rest) if writes_first => vec![format!("__{rest}")],
                _ => vec![self.name.clone()],
            };
        }
        let stem = self.name.strip_suffix('_').unwrap_or(&self.name);
        let mut names = vec![self.name.clone()];
        if stem != self.name {
            names.push(stem.to_owned());
        }
        names.extend(stem.strip_prefix("_foreach_").map(str::to_owned));
        names
    }

    pub fn variant(&self) -> Variant {
        let written: Vec<usize> = self
            .arguments
            .iter()
            .enumerate()
            .filter(|(_, argument)| argument.write)
            .map(|(index, _)| index)
            .collect();
        match written.as_slice() {
            [] => Variant::Functional,
            [0] if !self.arguments[0].keyword_only => Variant::InPlace,
            outs if outs.iter().all(|&index| self.arguments[index].keyword_only) => Variant::Out,
            _ => Variant::Irregular,
        }
    }
}

fn argument(ty: &str, name: &str, keyword_only: bool) -> Argument {
    let bare: String = ty.split('(').next().unwrap_or(ty).trim_end_matches('?').into();
    let list = ty.contains('[');
    let write = ty.contains('!');
    let element = bare.split('[').next().unwrap_or(&bare).trim_end_matches('?');
    let ty = match element {
        "Tensor" => ArgType::Tensor,
        "Scalar" | "number" => ArgType::Scalar,
        "Generator" => ArgType::Generator,
        _ => ArgType::Other,
    };
    Argument {
        name: name.into(),
        ty,
        list,
        write,
        keyword_only,
    }
}

/// Position of the parenthesis that closes the one at the start of `text`.
fn matching_parenthesis(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (position, character) in text.char_indices() {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(position);
                }
            }
            _ => {}
        }
    }
    None
}

/// Splits at commas outside of brackets and quotes.
fn split_top(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut quoted) = (0, 0, false);
    let mut items = Vec::new();
    for (position, character) in text.char_indices() {
        match character {
            '"' | '\'' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            ',' if depth == 0 && !quoted => {
                items.push(text[start..position].trim());
                start = position + 1;
            }
            _ => {}
        }
    }
    items.push(text[start..].trim());
    items.retain(|item| !item.is_empty());
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_parsed() {
        let schema = Schema::parse(
            "aten::max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) max_values) -> (Tensor(a!) values, Tensor(b!) indices)",
        )
        .unwrap();
        assert_eq!((schema.name.as_str(), schema.overload.as_str()), ("max", "dim_max"));
        assert_eq!(schema.variant(), Variant::Out);
        assert_eq!(schema.arguments.iter().filter(|argument| argument.write).count(), 2);
        assert_eq!(
            schema.returns,
            vec![
                Return {
                    list: false,
                    alias: true
                };
                2
            ]
        );
    }

    #[test]
    fn foreach_schemas_know_their_element() {
        let schema =
            Schema::parse("aten::_foreach_addcdiv_.ScalarList(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars) -> ()")
                .unwrap();
        assert_eq!(
            schema.base_names(),
            vec!["_foreach_addcdiv_", "_foreach_addcdiv", "addcdiv"]
        );
        assert_eq!(schema.variant(), Variant::InPlace);
        assert!(schema.arguments[3].list && schema.arguments[3].ty == ArgType::Scalar);
        assert!(schema.returns.is_empty());
    }

    #[test]
    fn defaults_with_commas_do_not_split() {
        let schema = Schema::parse(
            "aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=[0, 0]) -> Tensor",
        )
        .unwrap();
        assert_eq!(schema.arguments.len(), 4);
        assert_eq!(schema.arguments[3].name, "padding");
        assert_eq!(schema.variant(), Variant::Functional);
    }
}
