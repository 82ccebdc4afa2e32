"""Jobs of a partition over several turns: moves, dead-lettering, operators' actions, prepared settlements."""
