"""What is set up wrongly, and what an error means: checks and explanations, each a finding."""
