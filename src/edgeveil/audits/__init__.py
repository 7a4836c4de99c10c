"""The owner's questions: what does a model on my graph give away, which epsilon is worth using, do claims hold?"""
