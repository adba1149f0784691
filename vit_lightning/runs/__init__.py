"""Run folders and what lies in them: checkpoints, logs, the record of a run; and the signals that end one."""
