"""Work of a partition that takes several turns: moves, dead-lettering, operators' actions, preparing."""
