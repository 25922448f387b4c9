"""The demo: its sentences, the stages that run the programs, and the tables that show the results."""
