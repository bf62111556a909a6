"""Policies on pools beside what others choose from lists of candidates with."""
