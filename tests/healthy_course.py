"""Figures of a real short training (see main): what the watchdog must not bark at. Printed by this program."""
