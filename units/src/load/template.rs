//! Templates: a unit named `name@` (or `name@.service`), of which a dependency on
//! `name@x` makes the instance `name@x`. Native ones are kept as manifests whose values
//! get their specifiers replaced, imported ones as text that is imported anew for each
//! instance. Which instances are wanted is found here; bytes are not looked at.

use crate::import::systemd::unit_text::UnitText;
use crate::load::folder;
use crate::spec::DependencyKind;
use crate::text::name::Name;
use crate::text::specifier::{self, Facts};
use crate::text::unit_name::{Suffix, UnitName};
use crate::text::yaml::{Node, Value};
use crate::unit::assembly::Draft;
use crate::unit::manifest::Manifest;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A template and what it takes to make an instance.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// Its name, without an instance.
    pub(crate) name: UnitName,
    /// What instances are made of.
    pub(crate) body: Body,
    /// The instance that is made without anybody asking.
    pub(crate) default_instance: Option<String>,
    /// The source it is from.
    pub(crate) source: Option<Name>,
    /// The one instance it is for; None: all that have no other.
    pub(crate) only: Option<String>,
}

/// What instances are made of.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// A manifest with specifiers.
    Native(Box<Manifest>),
    /// A file of systemd's with its drop-ins, and whether it waits to be enabled.
    Imported {
        /// The file.
        path: Arc<str>,
        /// It and its drop-ins.
        texts: Vec<UnitText>,
        /// See [`crate::load::foreign::ForeignFile::opt_in`].
        opt_in: bool,
    },
}

impl Template {
    /// Where it is written.
    pub(crate) fn file(&self) -> &Arc<str> {
        match &self.body {
            Body::Native(manifest) => &manifest.file,
            Body::Imported { path, .. } => path,
        }
    }

    /// A manifest that is a template's.
    pub(crate) fn of(manifest: &Manifest) -> Option<Template> {
        let name = UnitName::of(manifest.name.as_ref()?.as_str());
        let default_instance = text_of(manifest, "default-instance").map(str::to_string);
        let body = Body::Native(Box::new(manifest.clone()));
        let found = Template { name, body, default_instance, source: None, only: None };
        found.name.is_template().then_some(found)
    }

    /// Of a source, whose files may be called by an instance (`web@1.yaml` with `unit: web@`):
    /// that one alone is made of it, and so no two instances have to be of the same text.
    pub(crate) fn of_source(mut self, source: Option<&Name>) -> Template {
        let stem = folder::stem(self.file());
        let is_own = UnitName::of(stem).template().as_ref() == Some(&self.name);
        self.only = (source.is_some() && is_own).then(|| stem.to_string());
        self.source = source.cloned();
        self
    }
}

/// A native template's instance: every value with its specifiers replaced.
///
/// # Errors
/// A specifier that can not be replaced: said in the manifest, which is broken then.
pub(crate) fn instance(template: &Manifest, name: &UnitName, facts: &Facts) -> Option<Manifest> {
    let mut manifest = template.clone();
    manifest.name = Some(Name::new(&name.to_string()).ok()?);
    manifest.entries.retain(|entry| entry.key.name != "default-instance");
    let mut found = Vec::new();
    for entry in &mut manifest.entries {
        let mut work = vec![&mut entry.node];
        while let Some(node) = work.pop() {
            let at = node.at;
            match &mut node.value {
                Value::Scalar(scalar) => match specifier::expand(&scalar.text, name, facts) {
                    Ok(text) => scalar.text = text,
                    Err(mistake) => {
                        let message = format!("{}: {}", entry.key.name, mistake.message);
                        let place = at.of(&entry.file);
                        found.push(crate::text::diagnostic::Diagnostic::error(
                            "specifier",
                            place,
                            message,
                        ));
                    }
                },
                Value::List(list) => work.extend(list),
                Value::Map(pairs) => work.extend(pairs.iter_mut().map(|pair| &mut pair.node)),
            }
        }
    }
    manifest.diagnostics.append(&mut found);
    Some(manifest)
}

/// The value of a scalar key of a manifest.
pub(crate) fn text_of<'m>(manifest: &'m Manifest, key: &str) -> Option<&'m str> {
    let node: &Node = &manifest.entry(key)?.node;
    node.scalar().map(|scalar| scalar.text.as_str())
}

/// All templates by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Templates {
    by_name: BTreeMap<String, Template>,
    /// Those for one instance, by its name.
    own: BTreeMap<String, Template>,
    aliases: BTreeMap<String, UnitName>,
}

impl Templates {
    /// One more; an earlier one of the same name stays.
    pub(crate) fn add(&mut self, template: Template) {
        match template.only.clone() {
            Some(instance) => self.own.entry(instance).or_insert(template),
            None => self.by_name.entry(template.name.to_string()).or_insert(template),
        };
    }

    /// Other names of a template.
    pub(crate) fn add_aliases(&mut self, name: &UnitName, aliases: &[String]) {
        for alias in aliases {
            self.aliases.entry(alias.clone()).or_insert_with(|| name.clone());
        }
    }

    /// There are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.own.is_empty()
    }

    /// Instances that are made without anybody asking.
    pub(crate) fn defaults(&self) -> Vec<String> {
        let each = self.by_name.values();
        each.filter_map(|template| {
            let instance = template.default_instance.as_deref()?;
            Some(template.name.with_instance(instance).to_string())
        })
        .collect()
    }

    /// The template that a target is an instance of, and the instance's own name: `a@x` is
    /// of `a@`, else of `a@.service`.
    pub(crate) fn of(&self, target: &str) -> Option<(&Template, UnitName)> {
        let name = UnitName::of(target);
        if let Some(own) = self.own.get(target) {
            return Some((own, name));
        }
        let alias = name.template().and_then(|template| self.aliases.get(&template.to_string()));
        if let (Some(real), Some(instance)) = (alias, &name.instance) {
            let template = self.by_name.get(&real.to_string())?;
            return Some((template, real.with_instance(instance)));
        }
        let exact = name.template().and_then(|template| self.by_name.get(&template.to_string()));
        if let Some(template) = exact {
            return Some((template, name));
        }
        let name = UnitName { suffix: Some(Suffix::Service), ..UnitName::of(target) };
        let template = self.by_name.get(&name.template()?.to_string())?;
        UnitName::of(target).suffix.is_none().then_some((template, name))
    }
}

/// Targets that units pull in and nobody provides.
pub(crate) fn unprovided(drafts: &[Draft], more: &[String]) -> Vec<String> {
    let mut provided: BTreeSet<&str> = BTreeSet::new();
    for draft in drafts {
        provided.insert(draft.name.as_str());
        provided.extend(draft.provides.iter().map(Name::as_str));
    }
    let pulled = drafts.iter().flat_map(pulled_by);
    let all: BTreeSet<&str> = pulled.chain(more.iter().map(String::as_str)).collect();
    let at = |target: &&str| target.contains('@') && !provided.contains(target);
    all.into_iter().filter(at).map(str::to_string).collect()
}

/// Targets that a unit pulls in, at its end and for connections too.
pub(crate) fn pulled_by(draft: &Draft) -> impl Iterator<Item = &str> {
    // A template that calls its own kind at its failure would have no last instance.
    let own = |target: &Name| same_template(target.as_str(), draft.name.as_str());
    let edges = draft.dependencies.iter().filter(move |edge| {
        edge.kind.pulls_in()
            || edge.kind == DependencyKind::Accepts
            || edge.kind.pulls_in_at_end() && !own(&edge.target)
    });
    edges.map(|edge| edge.target.as_str()).chain(draft.activates.as_ref().map(Name::as_str))
}

/// Both are instances of one template.
fn same_template(one: &str, other: &str) -> bool {
    let prefix = |name: &str| UnitName::of(name).template();
    prefix(one).is_some_and(|template| Some(template) == prefix(other))
}
