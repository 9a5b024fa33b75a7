"""Seeded generators of graphs, chains, pairs and dialogues.

Used by training, benchmarks and tests; not part of the wheel.  Nothing here may read evaluation data:
every text is composed from phrasings that were written for this project.
"""
