//! Graphs that are too large, unusual or detailed for a scenario file.

use super::*;
use crate::spec::Kind;
use crate::text::diagnostic::Severity;
use crate::unit::assembly::{Draft, Edge as DraftEdge, assemble};
use crate::unit::settings::Settings;
use proptest::prelude::*;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn unit(text: &str, line: u32, edges: &[(DependencyKind, &str)]) -> Draft {
    let at = Place { file: format!("{text}.yaml").into(), line, column: 1 };
    let mut draft = Draft::new(name(text), at, Kind::Virtual, &Settings::default());
    draft.dependencies = edges
        .iter()
        .zip(line + 1..)
        .map(|((kind, target), line)| DraftEdge {
            kind: *kind,
            target: name(target),
            optional: false,
            imported: false,
            line,
        })
        .collect();
    draft
}

fn resolve(drafts: Vec<Draft>) -> (Generation, Graph, Vec<Fault>) {
    let generation = assemble(drafts, []);
    let (graph, faults) = Graph::resolve(&generation, &generation.policy);
    (generation, graph, faults)
}

fn broken_names(generation: &Generation, graph: &Graph) -> Vec<String> {
    let broken = generation.unit_ids().filter(|id| graph.broken(*id).is_some());
    broken.map(|id| generation.unit(id).unwrap().name.to_string()).collect()
}

#[test]
fn ring_is_reported_with_the_line_of_each_link() {
    let (generation, graph, faults) = resolve(vec![
        unit("a", 1, &[(DependencyKind::DependsOn, "b")]),
        unit("b", 1, &[(DependencyKind::WaitsFor, "c")]),
        unit("c", 1, &[(DependencyKind::After, "a")]),
        unit("d", 1, &[(DependencyKind::DependsOn, "a")]),
    ]);
    let [fault] = faults.as_slice() else { panic!("{faults:?}") };
    let diagnostic = &fault.diagnostic;
    let message = "ring: a depends-on (a.yaml:2) b waits-for (b.yaml:2) c after (c.yaml:2) a";
    assert_eq!(diagnostic.message, message);
    assert_eq!((diagnostic.code.as_str(), diagnostic.severity), ("ring", Severity::Error));
    let related: Vec<String> = diagnostic.related.iter().map(|p| p.file.to_string()).collect();
    assert_eq!(related, ["b.yaml", "c.yaml"]);
    assert_eq!(broken_names(&generation, &graph), ["a", "b", "c"]);
}

#[test]
fn unit_that_depends_on_itself_is_a_ring_of_one() {
    let (generation, graph, faults) = resolve(vec![unit("a", 1, &[(DependencyKind::After, "a")])]);
    assert_eq!(faults[0].diagnostic.message, "ring: a after (a.yaml:2) a");
    assert_eq!(broken_names(&generation, &graph), ["a"]);
}

#[test]
fn cycle_of_wants_restart_with_or_conflicts_is_no_ring() {
    let kinds = [DependencyKind::Wants, DependencyKind::RestartWith, DependencyKind::Conflicts];
    for kind in kinds {
        let (_, _, faults) =
            resolve(vec![unit("a", 1, &[(kind, "b"), (kind, "a")]), unit("b", 1, &[(kind, "a")])]);
        assert!(faults.is_empty(), "{faults:?}");
    }
}

#[test]
fn before_and_depends_on_in_the_same_direction_are_no_ring() {
    let (_, graph, faults) = resolve(vec![
        unit("a", 1, &[(DependencyKind::Before, "b")]),
        unit("b", 1, &[(DependencyKind::DependsOn, "a")]),
    ]);
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(graph.order(), [UnitId(0), UnitId(1)]);
}

#[test]
fn disjoint_rings_are_reported_separately() {
    let pair = |a: &str, b: &str| {
        let kind = DependencyKind::DependsMs;
        [unit(a, 1, &[(kind, b)]), unit(b, 1, &[(kind, a)])]
    };
    let drafts = [pair("a", "b"), pair("c", "d"), pair("e", "f")].into_iter().flatten();
    let (_, _, faults) = resolve(drafts.collect());
    assert_eq!(faults.iter().filter(|fault| fault.diagnostic.code == "ring").count(), 3);
}

#[test]
fn ring_of_a_thousand_units_is_reported_whole() {
    const COUNT: usize = 1_000;
    let label = |number: usize| format!("u{:04}", number % COUNT);
    let drafts = (0..COUNT)
        .map(|i| unit(&label(i), 1, &[(DependencyKind::DependsOn, label(i + 1).as_str())]))
        .collect();
    let (generation, graph, faults) = resolve(drafts);
    assert_eq!(faults.len(), 1);
    assert_eq!(faults[0].units.len(), COUNT);
    assert_eq!(faults[0].diagnostic.related.len(), COUNT - 1);
    assert_eq!(broken_names(&generation, &graph).len(), COUNT);
}

#[test]
fn chain_of_the_maximum_number_of_units_is_resolved_without_recursion() {
    let count = crate::limit::UNITS;
    let label = |number: usize| format!("u{number:06}");
    let drafts = (0..count)
        .map(|i| match i {
            0 => unit(&label(0), 1, &[]),
            _ => unit(&label(i), 1, &[(DependencyKind::DependsOn, label(i - 1).as_str())]),
        })
        .collect();
    let (generation, graph, faults) = resolve(drafts);
    assert!(faults.is_empty());
    assert_eq!(graph.order().len(), generation.units.len());
}

#[test]
fn unit_that_needs_a_unit_it_conflicts_with_gets_a_warning() {
    let both = [(DependencyKind::DependsOn, "b"), (DependencyKind::Conflicts, "b")];
    let drafts = vec![
        unit("a", 1, &both),
        unit("b", 1, &[]),
        unit("c", 1, &[(DependencyKind::WaitsFor, "b"), (DependencyKind::Conflicts, "b")]),
    ];
    let (generation, graph, faults) = resolve(drafts);
    let [fault] = faults.as_slice() else { panic!("{faults:?}") };
    assert_eq!(fault.diagnostic.message, "a depends-on b and conflicts with it");
    assert_eq!(fault.diagnostic.severity, Severity::Warning);
    assert!(broken_names(&generation, &graph).is_empty());
}

#[test]
fn ring_drops_imported_order_links_starting_with_the_last_line() {
    let mut a = unit("a", 1, &[(DependencyKind::After, "b"), (DependencyKind::After, "c")]);
    let mut b = unit("b", 1, &[(DependencyKind::After, "a")]);
    let c = unit("c", 1, &[(DependencyKind::DependsOn, "a")]);
    for edge in a.dependencies.iter_mut().chain(&mut b.dependencies) {
        edge.imported = true;
    }
    let (generation, graph, faults) = resolve(vec![a, b, c]);
    let said: Vec<(Severity, &str)> = faults
        .iter()
        .map(|fault| (fault.diagnostic.severity, fault.diagnostic.message.as_str()))
        .collect();
    assert_eq!(
        said,
        [
            (Severity::Warning, "the order \"b after a\" is dropped to open a ring"),
            (Severity::Warning, "the order \"a after c\" is dropped to open a ring"),
        ]
    );
    assert!(broken_names(&generation, &graph).is_empty());
    let kept: Vec<_> = graph.edges(UnitId(0)).iter().map(|edge| edge.provider).collect();
    assert_eq!(kept, [Some(UnitId(1))]);
}

#[test]
fn missing_target_is_reported_with_a_suggestion() {
    let (_, _, faults) = resolve(vec![
        unit("web", 4, &[(DependencyKind::DependsOn, "databse"), (DependencyKind::Wants, "no")]),
        unit("database", 1, &[]),
    ]);
    let [fault, wanted] = faults.as_slice() else { panic!("{faults:?}") };
    assert_eq!(fault.diagnostic.message, "no unit provides `databse`, named in depends-on of web");
    assert_eq!(fault.diagnostic.severity, Severity::Error);
    assert_eq!(wanted.diagnostic.message, "no unit provides `no`, named in wants of web");
    assert_eq!(wanted.diagnostic.severity, Severity::Warning);
    assert_eq!(fault.diagnostic.hint, "did you mean `database`?");
    assert_eq!((fault.diagnostic.at.file.as_ref(), fault.diagnostic.at.line), ("web.yaml", 5));
}

#[test]
fn double_claim_is_reported_at_the_place_of_every_claimant() {
    let claim = |text: &str, line| Draft { provides: vec![name("dns")], ..unit(text, line, &[]) };
    let drafts = vec![claim("unbound", 3), claim("dnsmasq", 7), claim("knot", 9)];
    let (generation, graph, faults) = resolve(drafts.clone());
    let [fault] = faults.as_slice() else { panic!("{faults:?}") };
    assert_eq!(
        fault.diagnostic.message,
        "`dns` is provided by dnsmasq (dnsmasq.yaml:7) and knot (knot.yaml:9) and unbound (unbound.yaml:3)"
    );
    assert_eq!(fault.diagnostic.related.len(), 2);
    assert_eq!(broken_names(&generation, &graph).len(), 3);

    let mut generation = assemble(drafts, []);
    generation.policy.prefer.insert(name("dns"), name("knot"));
    let (graph, faults) = Graph::resolve(&generation, &generation.policy);
    assert!(faults.is_empty(), "{faults:?}");
    let dns = generation.find_target("dns").unwrap();
    assert_eq!(graph.provider(dns).unit(), generation.find_unit("knot"));
}

proptest! {
    /// For any graph: no ring is left, and every ordering edge leads up the order.
    #[test]
    fn resolved_graph_of_random_units_has_no_ring(
        edges in prop::collection::vec((0u32..12, 0u32..12, 0usize..8, any::<bool>()), 0..40),
    ) {
        let label = |number: u32| format!("u{number:02}");
        let mut drafts: Vec<Draft> = (0..12).map(|i| unit(&label(i), 1, &[])).collect();
        for (line, (from, to, kind, imported)) in (2u32..).zip(edges) {
            drafts[from as usize].dependencies.push(DraftEdge {
                kind: DependencyKind::ALL[kind],
                target: name(&label(to)),
                optional: false,
                imported,
                line,
            });
        }
        let (generation, graph, _) = resolve(drafts);
        prop_assert_eq!(graph.order().len(), generation.units.len());
        let place = |unit: UnitId| graph.order().iter().position(|other| *other == unit);
        for unit in generation.unit_ids() {
            for edge in graph.edges(unit).iter().filter(|edge| edge.kind.orders()) {
                prop_assert!(place(edge.provider.unwrap()) < place(unit));
            }
        }
    }
}
