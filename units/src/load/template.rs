//! Templates: units named `name@` (or `name@.service`). A dependency on `name@x` creates the
//! instance `name@x`. Native templates are stored as manifests whose specifiers are replaced,
//! imported ones as text that is imported again for each instance. This file finds the wanted
//! instances; it reads no files.

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

/// A template.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// The name without an instance.
    pub(crate) name: UnitName,
    /// The text or manifest from which instances are created.
    pub(crate) body: Body,
    /// The default instance, which is created without a request.
    pub(crate) default_instance: Option<String>,
    /// The source of the template.
    pub(crate) source: Option<Name>,
    /// The only instance it is for; `None` for all instances without a template of their own.
    pub(crate) only: Option<String>,
}

/// The text or manifest from which instances are created.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// The manifest of a native template, with specifiers.
    Native(Box<Manifest>),
    /// A file of systemd with its drop-ins, and whether it must be enabled first.
    Imported {
        /// The file.
        path: Arc<str>,
        /// The texts of the file and its drop-ins.
        texts: Vec<UnitText>,
        /// See [`crate::load::foreign::ForeignFile::opt_in`].
        opt_in: bool,
    },
}

impl Template {
    /// Returns the file of the template.
    pub(crate) fn file(&self) -> &Arc<str> {
        match &self.body {
            Body::Native(manifest) => &manifest.file,
            Body::Imported { path, .. } => path,
        }
    }

    /// Creates the template of a manifest.
    pub(crate) fn of(manifest: &Manifest) -> Option<Template> {
        let name = UnitName::of(manifest.name.as_ref()?.as_str());
        let default_instance = text_of(manifest, "default-instance").map(str::to_string);
        let body = Body::Native(Box::new(manifest.clone()));
        let found = Template { name, body, default_instance, source: None, only: None };
        found.name.is_template().then_some(found)
    }

    /// Sets the source. A file of a source may be named like an instance (`web@1.yaml` with
    /// `unit: web@`). Its template is only for that instance, so that instances may have different
    /// texts.
    pub(crate) fn of_source(mut self, source: Option<&Name>) -> Template {
        let stem = folder::stem(self.file());
        let is_own = UnitName::of(stem).template().as_ref() == Some(&self.name);
        self.only = (source.is_some() && is_own).then(|| stem.to_string());
        self.source = source.cloned();
        self
    }
}

/// Creates an instance of a native template: specifiers in every value are replaced. A specifier
/// that cannot be replaced becomes an error of the manifest. Returns `None` if the name is invalid.
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
                        let message = format!("{}: {mistake}", entry.key.name);
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

/// Returns the value of a scalar key of a manifest.
pub(crate) fn text_of<'m>(manifest: &'m Manifest, key: &str) -> Option<&'m str> {
    let node: &Node = &manifest.entry(key)?.node;
    node.scalar().map(|scalar| scalar.text.as_str())
}

/// All templates by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Templates {
    by_name: BTreeMap<String, Template>,
    /// Templates for one instance, by its name.
    own: BTreeMap<String, Template>,
    aliases: BTreeMap<String, UnitName>,
}

impl Templates {
    /// Adds a template; an earlier one of the same name stays.
    pub(crate) fn add(&mut self, template: Template) {
        match template.only.clone() {
            Some(instance) => self.own.entry(instance).or_insert(template),
            None => self.by_name.entry(template.name.to_string()).or_insert(template),
        };
    }

    /// Adds aliases of a template.
    pub(crate) fn add_aliases(&mut self, name: &UnitName, aliases: &[String]) {
        for alias in aliases {
            self.aliases.entry(alias.clone()).or_insert_with(|| name.clone());
        }
    }

    /// Returns true if there are no templates.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.own.is_empty()
    }

    /// Returns the names of the templates, without those for one instance.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// Returns the default instances.
    pub(crate) fn defaults(&self) -> Vec<String> {
        let each = self.by_name.values();
        each.filter_map(|template| {
            let instance = template.default_instance.as_deref()?;
            Some(template.name.with_instance(instance).to_string())
        })
        .collect()
    }

    /// Returns the template of a target, and the name of the instance: `a@x` belongs to `a@`,
    /// otherwise to `a@.service`.
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

/// Returns names of instances that units pull in or `more` contains, and that no unit provides.
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

/// Returns targets that a unit pulls in, also at its end and for connections.
pub(crate) fn pulled_by(draft: &Draft) -> impl Iterator<Item = &str> {
    // A template whose on-failure names an instance of the same template would create instances
    // without end.
    let own = |target: &Name| same_template(target.as_str(), draft.name.as_str());
    let edges = draft.dependencies.iter().filter(move |edge| {
        edge.kind.pulls_in()
            || edge.kind == DependencyKind::Accepts
            || edge.kind.pulls_in_at_end() && !own(&edge.target)
    });
    edges.map(|edge| edge.target.as_str()).chain(draft.activates.as_ref().map(Name::as_str))
}

/// Returns true if both are instances of one template.
fn same_template(one: &str, other: &str) -> bool {
    let prefix = |name: &str| UnitName::of(name).template();
    prefix(one).is_some_and(|template| Some(template) == prefix(other))
}
