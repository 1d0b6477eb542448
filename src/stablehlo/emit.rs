//! Text: dead code goes, every operation is printed in MLIR's generic form by one printer.

use super::func::{Func, Module, Region, Statement};
use super::types::Value;
use std::collections::HashSet;
use std::fmt::Write;

pub(super) fn module(func: Func, results: &[Value]) -> Module {
    let mut live: HashSet<u32> = results.iter().map(|value| value.id).collect();
    let mut statements: Vec<&Statement> = Vec::new();
    for statement in func.statements.iter().rev() {
        if statement.results.iter().any(|result| live.contains(&result.id)) {
            uses(statement, &mut live);
            statements.push(statement);
        }
    }
    statements.reverse();
    let kept: Vec<usize> = (0..func.params.len())
        .filter(|&index| live.contains(&func.params[index].id))
        .collect();

    let mut text = String::from("module {\n  func.func public @main(");
    for (position, &index) in kept.iter().enumerate() {
        let param = &func.params[index];
        let separator = if position == 0 { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}%{}: {}", param.id, param.ty);
        if let Some((_, result)) = func.aliases.iter().find(|(param, _)| *param == index) {
            let _ = write!(text, " {{tf.aliasing_output = {result} : i32}}");
        }
    }
    let _ = writeln!(text, ") -> ({}) {{", types(results));
    for statement in statements {
        print(&mut text, statement, 2);
    }
    let _ = writeln!(
        text,
        "    \"func.return\"({}) : ({}) -> ()\n  }}\n}}",
        names(results),
        types(results)
    );
    Module {
        text,
        params: kept,
        results: results.iter().map(|value| value.ty.clone()).collect(),
    }
}

/// Marks what a statement reads, in its regions too.
fn uses(statement: &Statement, live: &mut HashSet<u32>) {
    live.extend(statement.operands.iter().map(|operand| operand.id));
    for region in &statement.regions {
        live.extend(region.results.iter().map(|result| result.id));
        for inner in &region.statements {
            uses(inner, live);
        }
    }
}

fn names(values: &[Value]) -> String {
    values
        .iter()
        .map(|value| format!("%{}", value.id))
        .collect::<Vec<_>>()
        .join(", ")
}

fn types(values: &[Value]) -> String {
    values
        .iter()
        .map(|value| value.ty.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

fn print(text: &mut String, statement: &Statement, depth: usize) {
    let indent = "  ".repeat(depth);
    let _ = write!(
        text,
        "{indent}{} = \"{}\"({})",
        names(&statement.results),
        statement.name,
        names(&statement.operands)
    );
    if !statement.regions.is_empty() {
        text.push_str(" (");
        for (position, region) in statement.regions.iter().enumerate() {
            if position > 0 {
                text.push_str(", ");
            }
            print_region(text, region, depth + 1);
        }
        text.push(')');
    }
    if !statement.attributes.is_empty() {
        let _ = write!(text, " {{{}}}", statement.attributes);
    }
    let _ = writeln!(
        text,
        " : ({}) -> ({})",
        types(&statement.operands),
        types(&statement.results)
    );
}

fn print_region(text: &mut String, region: &Region, depth: usize) {
    let indent = "  ".repeat(depth);
    text.push_str("{\n");
    if !region.arguments.is_empty() {
        let arguments: Vec<String> = region
            .arguments
            .iter()
            .map(|value| format!("%{}: {}", value.id, value.ty))
            .collect();
        let _ = writeln!(text, "{indent}^bb0({}):", arguments.join(", "));
    }
    for statement in &region.statements {
        print(text, statement, depth + 1);
    }
    let _ = write!(
        text,
        "{indent}  \"stablehlo.return\"({}) : ({}) -> ()\n{}}}",
        names(&region.results),
        types(&region.results),
        "  ".repeat(depth - 1)
    );
}

/// `array<i64: 1, 2>`
pub(super) fn ints(values: impl IntoIterator<Item = i64>) -> String {
    let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    if values.is_empty() {
        "array<i64>".into()
    } else {
        format!("array<i64: {}>", values.join(", "))
    }
}

/// `array<i64: 1, 2>` of axes.
pub(super) fn axes(values: &[usize]) -> String {
    ints(values.iter().map(|&axis| axis as i64))
}

/// `[1, 2]`
pub(super) fn list(values: &[usize]) -> String {
    format!(
        "[{}]",
        values
            .iter()
            .map(|axis| axis.to_string())
            .collect::<Vec<_>>()
            .join(", ")
    )
}

/// Low and high padding per axis, `dense<[[0, 1]]> : tensor<1x2xi64>`.
pub(super) fn padding(pairs: &[(i64, i64)]) -> String {
    if pairs.is_empty() {
        return "dense<> : tensor<0x2xi64>".into();
    }
    let rows: Vec<String> = pairs.iter().map(|(low, high)| format!("[{low}, {high}]")).collect();
    format!("dense<[{}]> : tensor<{}x2xi64>", rows.join(", "), pairs.len())
}
