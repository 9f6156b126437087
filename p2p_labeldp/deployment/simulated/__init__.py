"""The deployment's own code in a world where one seed decides everything: network, disks, clocks, processes, disasters.

    python -m p2p_labeldp.deployment.simulated --seed 7 --trace       one run, with its history
    python -m p2p_labeldp.deployment.simulated --seeds 0:1000         many, and what fired in them

| module | holds |
|---|---|
| ``clockwork`` | trio without chance: the same order of steps, and time that jumps |
| ``history`` | what happened, line by line, its digest, and what came of it |
| ``network``, ``meeting`` | connections between machines, and who meets whom by which certificate |
| ``disk`` | what a crash may take |
| ``machine`` | a machine, its clock, and the program that lives and dies on it |
| ``disasters`` | the kinds of faults, and how each is brought about |
| ``plan`` | what a seed draws: the scenario, the fleet, the faults |
| ``shadow``, ``watch``, ``verdict`` | what must hold at every step, and at the end |
| ``run``, ``swarm``, ``shrink`` | one seed, many seeds, the smallest plan that still fails |

Nodes are the shipped ones: ``Node``, ``Transport``, ``Journal``, enrolment. What stands in for the operating system is
behind ``deployment.world`` and nowhere else.
"""
