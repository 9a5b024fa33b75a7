"""Programs that measure: one per question.  Each prints a table and writes JSON; see ``reporting``."""
