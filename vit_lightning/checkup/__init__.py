"""What the verb `doctor` knows: facts about data and machine, and the findings that follow from them."""
