//! Graphs with many more edges than units: the work of a boot and of a plan is linear in the edges.

use super::*;

/// Returns a ladder: each side of a rung depends on both sides of the rung below. It has 2^depth
/// paths.
fn ladder(depth: usize) -> Vec<Draft> {
    let side = |rung: usize, side: char| format!("{side}{rung:05}");
    let mut drafts = Vec::new();
    for rung in 0..depth {
        for letter in ['a', 'b'] {
            let below: Vec<String> = match rung {
                0 => Vec::new(),
                _ => ['a', 'b'].map(|letter| side(rung - 1, letter)).into(),
            };
            let edges: Vec<_> =
                below.iter().map(|text| (DependencyKind::DependsOn, text.as_str())).collect();
            drafts.push(service(&side(rung, letter), &edges));
        }
    }
    let top = ['a', 'b'].map(|letter| side(depth - 1, letter));
    let edges: Vec<_> = top.iter().map(|text| (DependencyKind::DependsOn, text.as_str())).collect();
    drafts.push(unit("all", Kind::Virtual, &edges));
    drafts
}

/// Returns layers of a hundred units, each of which depends on the whole layer below.
fn layers(count: usize) -> Vec<Draft> {
    const WIDTH: usize = 100;
    let label = |layer: usize, i: usize| format!("l{layer:03}-{i:02}");
    let mut drafts = Vec::new();
    for layer in 0..count {
        let below: Vec<String> = match layer {
            0 => Vec::new(),
            _ => (0..WIDTH).map(|i| label(layer - 1, i)).collect(),
        };
        let edges: Vec<_> =
            below.iter().map(|text| (DependencyKind::DependsOn, text.as_str())).collect();
        drafts.extend((0..WIDTH).map(|i| service(&label(layer, i), &edges)));
    }
    let top: Vec<String> = (0..WIDTH).map(|i| label(count - 1, i)).collect();
    let edges: Vec<_> = top.iter().map(|text| (DependencyKind::DependsOn, text.as_str())).collect();
    drafts.push(unit("all", Kind::Virtual, &edges));
    drafts
}

/// Returns the number of units and edges, and the number of visits until all units are up.
fn cost(drafts: Vec<Draft>) -> (usize, usize) {
    let edges: usize = drafts.iter().map(|draft| draft.dependencies.len()).sum();
    let size = drafts.len() + edges;
    let (mut machine, outcome) = boot(drafts, "all");
    let mut looked = machine.visited();
    let mut queue: std::collections::VecDeque<RunId> = started(&outcome).into();
    while let Some(run) = queue.pop_front() {
        let outcome = machine.step(at(1), Event::Ready(run));
        looked += machine.visited();
        queue.extend(started(&outcome));
    }
    assert!(machine.is_settled(), "all is up");
    assert_eq!(machine.system(), crate::control::answer::System::Running);
    (size, looked)
}

#[test]
fn units_visited_by_a_boot_grow_linearly_with_the_edges() {
    for (shape, small, large) in [
        ("ladders", cost(ladder(500)), cost(ladder(5_000))),
        ("layers", cost(layers(4)), cost(layers(101))),
    ] {
        assert!(shape == "ladders" || large.0 > 1_010_000, "ten thousand units, a million edges");
        for (size, looked) in [small, large] {
            assert!(looked <= 2 * size, "{shape}: {looked} looked at for {size} units and edges");
        }
    }
}

#[test]
fn plan_of_a_ladder_has_one_wave_per_rung() {
    let generation = Arc::new(assemble(ladder(1_000), []));
    let machine = Machine::new(Duration::from_secs(90));
    let event = Event::Boot { generation, targets: vec![name("all")] };
    let plan = machine.plan(at(0), event).unwrap();
    assert_eq!(plan.start.len(), 1_001);
    assert!(plan.start.iter().take(1_000).all(|wave| wave.len() == 2));
}
