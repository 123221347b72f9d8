//! Weaves all mutants of a file into its text, each behind a switch that a number in the
//! environment turns on. The syntax tree gives the positions; the result is the old text with
//! additions, on the same lines. The compiler decides later which mutants compile
//! ([`super::tree`]).

use crate::list::{Genre, Mutant};
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A position that can be switched.
struct Site {
    range: Range<usize>,
    kind: Kind,
}

enum Kind {
    /// `left op right`, and other operators with the numbers of their mutants.
    Binary { left: Range<usize>, op: String, right: Range<usize>, others: Vec<(u32, String)> },
    /// An operator before its operand.
    Unary { op: String, operand: Range<usize>, without: u32 },
    /// The guard of an arm: true, false.
    Guard { fixed: Vec<(u32, String)> },
    /// The position for a guard of an arm without one.
    Arm { without: u32 },
    /// Fields that the base can provide.
    Struct { fields: Vec<(u32, Range<usize>)> },
    /// The start of a body, and its possible values.
    Body { values: Vec<(u32, String)> },
}

impl Kind {
    fn numbers(&self) -> Vec<u32> {
        let numbers = |pairs: &[(u32, String)]| pairs.iter().map(|(number, _)| *number).collect();
        match self {
            Kind::Binary { others: pairs, .. }
            | Kind::Guard { fixed: pairs }
            | Kind::Body { values: pairs } => numbers(pairs),
            Kind::Unary { without, .. } | Kind::Arm { without } => vec![*without],
            Kind::Struct { fields } => fields.iter().map(|(number, _)| *number).collect(),
        }
    }
}

/// The range of a mutant's own text in the woven file, or of everything switched with it.
pub struct Woven {
    /// The number of the mutant.
    pub number: u32,
    /// The range of bytes.
    pub range: Range<usize>,
}

/// The file with all of `mutants`, and their positions. Missing ones cannot be woven.
pub fn weave(text: &str, mutants: &[&Mutant]) -> Result<(String, Vec<Woven>), syn::Error> {
    let file = syn::parse_file(text)?;
    let mut finder = Finder { mutants, sites: Vec::new() };
    finder.visit_file(&file);
    let mut sites = finder.sites;
    // Outer ones first; a guard surrounds an operator of the same extent.
    sites.sort_by_key(|site| {
        let inner = !matches!(site.kind, Kind::Guard { .. });
        (site.range.start, std::cmp::Reverse(site.range.end), inner)
    });
    let mut loom = Loom { text, sites: &sites, out: String::new(), woven: Vec::new() };
    loom.cloth(0..text.len(), 0);
    Ok((loom.out, loom.woven))
}

struct Finder<'a> {
    mutants: &'a [&'a Mutant],
    sites: Vec<Site>,
}

impl Finder<'_> {
    /// The mutants of this genre that start here: their numbers and replacements.
    fn at(&self, genre: Genre, span: proc_macro2::Span) -> Vec<(u32, String)> {
        let start = (span.start().line, span.start().column + 1);
        let here = self.mutants.iter().filter(|it| it.genre == genre && it.start == start);
        here.map(|it| (it.number, it.replacement.clone())).collect()
    }

    fn put(&mut self, range: Range<usize>, kind: Kind) {
        self.sites.push(Site { range, kind });
    }

    fn body(&mut self, signature: &syn::Signature, block: &syn::Block) {
        // An `impl Trait` cannot have two types.
        let opaque = |kind: &syn::Type| matches!(kind, syn::Type::ImplTrait(_));
        if matches!(&signature.output, syn::ReturnType::Type(_, kind) if opaque(kind)) {
            return;
        }
        let Some(first) = block.stmts.first() else { return };
        let values = self.at(Genre::FnValue, first.span());
        let begin = block.brace_token.span.open().byte_range().end;
        if !values.is_empty() {
            self.put(begin..begin, Kind::Body { values });
        }
    }
}

/// Half of an `if let … && …`: only `&&` can be there.
fn has_let(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(it) => has_let(&it.left) || has_let(&it.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, it: &'ast syn::ItemFn) {
        self.body(&it.sig, &it.block);
        visit::visit_item_fn(self, it);
    }

    fn visit_impl_item_fn(&mut self, it: &'ast syn::ImplItemFn) {
        self.body(&it.sig, &it.block);
        visit::visit_impl_item_fn(self, it);
    }

    fn visit_expr_binary(&mut self, it: &'ast syn::ExprBinary) {
        let others = self.at(Genre::BinaryOperator, it.op.span());
        if !others.is_empty() && !has_let(&it.left) && !has_let(&it.right) {
            let op = it.op.span().source_text().unwrap_or_default();
            let (left, right) = (it.left.span().byte_range(), it.right.span().byte_range());
            self.put(it.span().byte_range(), Kind::Binary { left, op, right, others });
        }
        visit::visit_expr_binary(self, it);
    }

    fn visit_expr_unary(&mut self, it: &'ast syn::ExprUnary) {
        if let Some((without, _)) = self.at(Genre::UnaryOperator, it.op.span()).pop() {
            let op = it.op.span().source_text().unwrap_or_default();
            let operand = it.expr.span().byte_range();
            self.put(it.span().byte_range(), Kind::Unary { op, operand, without });
        }
        visit::visit_expr_unary(self, it);
    }

    fn visit_expr_match(&mut self, it: &'ast syn::ExprMatch) {
        let is_rest = |arm: &&syn::Arm| matches!(arm.pat, syn::Pat::Wild(_)) && arm.guard.is_none();
        // Without a catch-all arm no arm can be removed.
        if it.arms.iter().any(|arm| is_rest(&arm)) {
            for arm in it.arms.iter().filter(|arm| arm.guard.is_none()) {
                if let Some((without, _)) = self.at(Genre::MatchArm, arm.span()).pop() {
                    let end = arm.pat.span().byte_range().end;
                    self.put(end..end, Kind::Arm { without });
                }
            }
        }
        visit::visit_expr_match(self, it);
    }

    fn visit_arm(&mut self, it: &'ast syn::Arm) {
        if let Some((_, guard)) = &it.guard {
            let fixed = self.at(Genre::MatchArmGuard, guard.span());
            if !fixed.is_empty() && !has_let(guard) {
                self.put(guard.span().byte_range(), Kind::Guard { fixed });
            }
        }
        visit::visit_arm(self, it);
    }

    fn visit_expr_struct(&mut self, it: &'ast syn::ExprStruct) {
        let mut fields = Vec::new();
        for pair in it.fields.pairs() {
            let field = pair.value().span().byte_range();
            let end = pair.punct().map_or(field.end, |comma| comma.span().byte_range().end);
            let here = self.at(Genre::StructField, pair.value().span());
            fields.extend(here.first().map(|(number, _)| (*number, field.start..end)));
        }
        if !fields.is_empty() {
            self.put(it.span().byte_range(), Kind::Struct { fields });
        }
        visit::visit_expr_struct(self, it);
    }
}

struct Loom<'a> {
    text: &'a str,
    sites: &'a [Site],
    out: String,
    woven: Vec<Woven>,
}

impl Loom<'_> {
    /// Writes a piece of the text and weaves in its sites whose index is at least `from`.
    fn cloth(&mut self, piece: Range<usize>, from: usize) {
        let sites = self.sites;
        let mut at = piece.start;
        for (index, site) in sites.iter().enumerate().skip(from) {
            if site.range.start >= piece.end {
                break;
            }
            if site.range.start < at || site.range.end > piece.end {
                continue;
            }
            self.plain(at..site.range.start);
            let start = self.out.len();
            self.site(index, site);
            // If the compiler rejects the whole, all of it must go.
            let whole = start..self.out.len();
            let numbers = site.kind.numbers().into_iter();
            self.woven.extend(numbers.map(|number| Woven { number, range: whole.clone() }));
            at = site.range.end;
        }
        self.plain(at..piece.end);
    }

    fn plain(&mut self, piece: Range<usize>) {
        self.out.push_str(self.text.get(piece).unwrap_or_default());
    }

    /// The part that only mutant `number` executes.
    fn own(&mut self, number: u32, write: impl FnOnce(&mut Self)) {
        let start = self.out.len();
        write(self);
        self.woven.push(Woven { number, range: start..self.out.len() });
    }

    fn site(&mut self, index: usize, site: &Site) {
        let next = index + 1;
        match &site.kind {
            Kind::Body { values } => {
                for (number, value) in values {
                    self.own(*number, |it| {
                        it.out.push_str(&format!(" if {} {{ return {value}; }} ", on(*number)));
                    });
                }
            }
            Kind::Arm { without } => self.own(*without, |it| {
                it.out.push_str(&format!(" if !{}", on(*without)));
            }),
            Kind::Guard { fixed } => {
                let is = |value: &str| {
                    let found = fixed.iter().find(|(_, fixed)| fixed == value);
                    found.map_or("false".to_string(), |(number, _)| on(*number))
                };
                self.out.push_str(&format!("({} || !{} && (", is("true"), is("false")));
                self.cloth(site.range.clone(), next);
                self.out.push_str("))");
            }
            Kind::Unary { op, operand, without } => {
                self.out.push_str(&format!("(if {} {{ ", on(*without)));
                self.own(*without, |it| it.cloth(operand.clone(), next));
                self.out.push_str(&format!(" }} else {{ {op}"));
                self.cloth(operand.clone(), next);
                self.out.push_str(" })");
            }
            Kind::Struct { fields } => {
                self.out.push('(');
                for (number, field) in fields {
                    self.out.push_str(&format!("if {} {{ ", on(*number)));
                    self.own(*number, |it| {
                        it.cloth(site.range.start..field.start, next);
                        it.cloth(field.end..site.range.end, next);
                    });
                    self.out.push_str(" } else ");
                }
                self.out.push_str("{ ");
                self.cloth(site.range.clone(), next);
                self.out.push_str(" })");
            }
            Kind::Binary { left, op, right, others } => self.binary(left, op, right, others, next),
        }
    }

    fn binary(
        &mut self,
        left: &Range<usize>,
        op: &str,
        right: &Range<usize>,
        others: &[(u32, String)],
        next: usize,
    ) {
        // A chain of && would be written twice for each link, so its mutants share one copy.
        if let ([(number, _)], "&&" | "||") = (others, op) {
            self.own(*number, |it| {
                it.out.push_str("({ let l_: bool = ");
                it.cloth(left.clone(), next);
                it.out.push_str(&format!("; if l_ ^ {} {{ ", on(*number)));
                let ends = |it: &mut Self| it.out.push_str("l_");
                let goes_on = |it: &mut Self| it.cloth(right.clone(), next);
                if op == "&&" {
                    goes_on(it)
                } else {
                    ends(it)
                }
                it.out.push_str(" } else { ");
                if op == "&&" {
                    ends(it)
                } else {
                    goes_on(it)
                }
                it.out.push_str(" } })");
            });
            return;
        }
        let assigns = op.ends_with('=') && !matches!(op, "==" | "!=" | "<=" | ">=");
        let compares = matches!(op, "==" | "!=" | "<" | ">" | "<=" | ">=");
        if assigns {
            return self.assignment(left, op, right, others, next);
        }
        // Both sides are written once, whatever the number of mutants: chains would grow
        // exponentially.
        let by = if compares { "&" } else { "" };
        self.out.push_str(&format!("(match ({by}("));
        self.cloth(left.clone(), next);
        self.out.push_str(&format!("), {by}("));
        self.cloth(right.clone(), next);
        self.out.push_str(")) { (l_, r_) => ");
        for (number, other) in others {
            self.out.push_str(&format!("if {} {{ ", on(*number)));
            self.own(*number, |it| it.out.push_str(&format!("l_ {other} r_")));
            self.out.push_str(" } else ");
        }
        self.out.push_str(&format!("{{ l_ {op} r_ }} }})"));
    }

    fn assignment(
        &mut self,
        left: &Range<usize>,
        op: &str,
        right: &Range<usize>,
        others: &[(u32, String)],
        next: usize,
    ) {
        let write = |it: &mut Self, op: &str| {
            it.cloth(left.clone(), next);
            it.out.push_str(&format!(" {op} ("));
            it.cloth(right.clone(), next);
            it.out.push(')');
        };
        self.out.push('(');
        for (number, other) in others {
            self.out.push_str(&format!("if {} {{ ", on(*number)));
            self.own(*number, |it| write(it, other));
            self.out.push_str(" } else ");
        }
        self.out.push_str("{ ");
        write(self, op);
        self.out.push_str(" })");
    }
}

fn on(number: u32) -> String {
    format!("crate::switch::is({number})")
}
