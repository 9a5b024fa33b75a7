"""Phrasings and scenes from which ``synthetic.pairs`` composes training pairs.

The ``*.txt`` files hold the phrasings, one a line, by section; the modules turn them into statements with a
machine-readable meaning (``statements``), so that every label is computed from meaning and never written by
hand. The format of the text files is described in ``catalogue``.
"""
