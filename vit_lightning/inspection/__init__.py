"""What a net has learned: functions of arrays and plain torch nets; `drawing` makes pictures of what they return."""
