"""What algorithms are for, and when to take which: what ``thinstream algorithms`` says of them."""

#: Purpose → algorithm → a line of advice.
PURPOSES: dict[str, dict[str, str]] = {
    "To begin with": {
        "Auto": "the default: many models learn along, nothing to tune",
        "AdaRDA": "good untuned, sparse with --l1",
        "AROW": "good untuned on dense and noisy rows; no l1",
        "FTRLProximal": "clicks and other rare events, huge vocabularies; sparse with --l1",
        "NAG": "columns of any size, without scaling",
        "Coin": "no learning rate to choose",
    },
    "Sparse models": {
        "SSOL": "few weights at a low error, once eta, r and l1 are tuned (thinstream path)",
        "FSOL": "as SSOL without variances: less memory, faster",
        "AdaFOBOS": "as AdaRDA, by splitting instead of averaging",
        "RDA": "one rate for all features; rho > 0 is sparser",
        "FOBOS": "the plain way to l1, fast and simple",
        "STG": "truncates small weights every so many rows",
        "StableSparsePerceptron": "ends at a density you give, for good",
        "SOFS": "keeps the B features it is surest of, no more",
        "SMIDAS": "few features matter among very many; a row costs as much as there are weights",
    },
    "Confidence in each weight": {
        "SCW": "as AROW with a limit on each step; tune C",
        "CW": "rows without noise: trusts every label",
        "NAROW": "AROW that slows down as it grows sure",
        "SOP": "learns from mistakes only, with the geometry of the rows",
    },
    "Simple and small": {
        "PA": "one weight per feature, no rate; C for noise",
        "Perceptron": "what others are measured by",
        "CSOGD": "plain gradient steps; with class weights cost-sensitive",
    },
    "Classes of different cost or size": {
        "ARCSOGD": "rare positives; tune with thinstream costs",
        "CPA": "the margin that a cost asks for, by what was predicted",
        "PAUM": "a margin for each class",
    },
    "All rows at once, or several passes": {
        "SCD": "logistic regression with l1, to the optimum",
        "SparDCA": "a support vector machine with l1",
        "FGM": "groups of features, one by one",
        "GraDes": "exactly s features, in little memory",
        "BCW": "confidence for a batch as a whole, few features",
        "SBCW": "the same for many features, a few chosen",
    },
}
